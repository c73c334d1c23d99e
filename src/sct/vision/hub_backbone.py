"""A backbone of the hub as a network that sees regions."""

import inspect
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float
from torch import Tensor, nn

from sct.errors import InputError
from sct.vision.encoder import IMAGENET_STD, MEAN
from sct.vision.hub_loading import PretrainedModel
from sct.vision.roi_align import roi_align

_CELLS = 4
_USUAL_SIDE = 224
_SUITABLE = "expected a backbone that takes colour images and makes one map, or one vector a patch"


class HubNetwork(nn.Module):
    """Looks at images once and gives features of boxes (``sct.vision.interface.RegionNetwork``).

    A feature is the mean of the last map in the box, brought to mean 0 and spread 1: backbones differ in how large
    their numbers are, and captioners expect them to be about 1.
    """

    scale: Float[Tensor, "3 1 1"]
    shift: Float[Tensor, "3 1 1"]

    def __init__(self, backbone: PretrainedModel, name: str, side: int | None = None) -> None:
        """``side``: pixels of the square that it is given; none: as its own preparation makes them."""
        super().__init__()
        self.backbone = backbone.model.requires_grad_(False)
        self.patch = _patch(backbone.config)
        self.side = _own_side(backbone, self.patch) if side is None else _checked_side(side, self.patch, name)
        self._options = _options(backbone.model)
        self._is_flipped = bool(getattr(backbone.processor, "do_flip_channel_order", False))
        scale, shift = _colours(backbone.processor)
        self.register_buffer("scale", scale, persistent=False)
        self.register_buffer("shift", shift, persistent=False)
        self.feature_size = self._try(name)

    @torch.no_grad()
    def look(self, images: Float[Tensor, "images 3 side side"]) -> Float[Tensor, "images channels rows columns"]:
        """Pass over images, normalised as ``sct.vision.encoder.normalised`` does."""
        coloured = images * self.scale + self.shift
        seen = self.backbone(coloured.flip(1) if self._is_flipped else coloured, **self._options)
        maps: Tensor | None = getattr(seen, "last_hidden_state", None)
        if maps is None:
            maps = seen.feature_maps[-1]
        # Also where it looked in half precision: places in a map are read to a fraction of its cells.
        return (maps if maps.ndim == 4 else self._map_of_tokens(maps)).float()

    @torch.no_grad()
    def features(
        self, maps: Float[Tensor, "images channels rows columns"], boxes: Float[Tensor, "images boxes 4"]
    ) -> Float[Tensor, "images boxes channels"]:
        """Features of as many boxes in each image, relative to it."""
        means = roi_align(maps, boxes, _CELLS).mean((3, 4))
        return F.layer_norm(means.float(), means.shape[-1:])

    def _map_of_tokens(
        self, tokens: Float[Tensor, "images tokens channels"]
    ) -> Float[Tensor, "images channels rows columns"]:
        """Vectors of patches, row by row; those that come before them are of the image as a whole."""
        count = tokens.shape[1]
        rows = self.side // self.patch if self.patch else int(count**0.5)
        if not 0 < rows * rows <= count:
            raise ValueError(f"its {count} vectors are fewer than the {rows} x {rows} patches of an image")
        patches: Tensor = tokens[:, count - rows * rows :].transpose(1, 2).unflatten(2, (rows, rows))
        return patches

    @torch.no_grad()
    def _try(self, name: str) -> int:
        """Look at one grey image; what cannot see it is refused now and not in the middle of a training."""
        self.eval()
        try:
            maps = self.look(torch.zeros(1, 3, self.side, self.side))
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
            why = " ".join(str(error).split())
            raise InputError(
                f"backbone {name!r} cannot see an image of {self.side} x {self.side} ({why}): {_SUITABLE}, and a side "
                "that it knows"
            ) from error
        return maps.shape[1]


def _patch(config: Any) -> int | None:
    """Pixels of the side of a patch, where the backbone has patches and they are squares."""
    patch = getattr(config, "patch_size", None)
    if isinstance(patch, (list, tuple)) and len(set(patch)) == 1:
        patch = patch[0]
    return patch if isinstance(patch, int) and patch > 0 else None


def _checked_side(side: int, patch: int | None, name: str) -> int:
    if patch and side % patch:
        raise InputError(
            f"side is {side}, but patches of backbone {name!r} have {patch} pixels a side: expected a multiple of that, "
            f"such as {max(1, round(side / patch)) * patch}"
        )
    return side


def _own_side(backbone: PretrainedModel, patch: int | None) -> int:
    """What comes out of the backbone's own preparation, less what would fill no patch."""
    found = None
    for size in (
        getattr(backbone.processor, "crop_size", None),
        getattr(backbone.processor, "size", None),
        getattr(backbone.config, "image_size", None),
    ):
        found = found or _side_of(size)
    side = found or _USUAL_SIDE
    return max(side - side % patch, patch) if patch else side


def _side_of(size: Any) -> int | None:
    """The side in any of the ways in which transformers writes one."""
    if isinstance(size, (list, tuple)):
        size = size[0] if size else None
    if size is not None and not isinstance(size, int):
        size = next((size[key] for key in ("height", "shortest_edge", "longest_edge") if size.get(key)), None)
    return size or None


def _options(model: nn.Module) -> dict[str, bool]:
    """Some encoders take other sizes than those they were trained with only if they are told to."""
    name = "interpolate_pos_encoding"
    return {name: True} if name in inspect.signature(model.forward).parameters else {}


def _colours(processor: Any) -> tuple[Float[Tensor, "3 1 1"], Float[Tensor, "3 1 1"]]:
    """Scale and shift from colours normalised as ours to colours as the backbone wants them."""
    factor = float(getattr(processor, "rescale_factor", 1 / 255)) if getattr(processor, "do_rescale", True) else 1.0
    mean, spread = torch.zeros(3), torch.ones(3)
    if getattr(processor, "do_normalize", False):
        mean = torch.tensor(processor.image_mean).float().expand(3)
        spread = torch.tensor(processor.image_std).float().expand(3)
    of_white = 255 * factor
    scale = torch.tensor(IMAGENET_STD) * of_white / spread
    shift = (torch.tensor(MEAN) * of_white - mean) / spread
    return scale.view(3, 1, 1), shift.view(3, 1, 1)
