"""A backbone of the Hugging Face Hub as a region feature extractor."""

import inspect
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float
from torch import Tensor, nn

from sct.errors import InputError
from sct.limits import MAX_IMAGE_SIDE, check_integer
from sct.vision.hub_loading import PretrainedModel
from sct.vision.interface import RegionFeatureExtractor
from sct.vision.preprocess import IMAGENET_MEAN, IMAGENET_STD
from sct.vision.roi_align import roi_align

_ROI_SIZE = 4
_DEFAULT_IMAGE_SIZE = 224
_REQUIREMENT = "use a backbone that takes RGB images and returns one feature map or one token per patch"


class HubBackbone(RegionFeatureExtractor):
    """Pools features of boxes from the last feature map of a frozen backbone.

    Features are layer-normalised: backbones differ in scale, captioners expect a standard deviation of about 1.
    """

    scale: Float[Tensor, "3 1 1"]
    shift: Float[Tensor, "3 1 1"]

    def __init__(self, backbone: PretrainedModel, name: str, image_size: int | None = None) -> None:
        """``image_size`` is the side in pixels of its input; None: that of its image processor."""
        super().__init__()
        self.backbone = backbone.model.requires_grad_(False)
        self.patch_size = _patch_size(backbone.config)
        if image_size is None:
            self.image_size = _default_image_size(backbone, self.patch_size)
        else:
            self.image_size = _check_image_size(image_size, self.patch_size, name)
        check_integer(f"the image size of backbone {name!r}", self.image_size, 1, MAX_IMAGE_SIDE)
        self._forward_options = _forward_options(backbone.model)
        self._flips_channels = bool(getattr(backbone.processor, "do_flip_channel_order", False))
        scale, shift = _renormalization(backbone.processor)
        self.register_buffer("scale", scale, persistent=False)
        self.register_buffer("shift", shift, persistent=False)
        self.feature_size = self._probe(name)

    @torch.no_grad()
    def encode_pixels(
        self, pixels: Float[Tensor, "images 3 side side"]
    ) -> Float[Tensor, "images channels rows columns"]:
        """Return the last feature map of normalised images."""
        renormalized = pixels * self.scale + self.shift
        output = self.backbone(renormalized.flip(1) if self._flips_channels else renormalized, **self._forward_options)
        maps: Tensor | None = getattr(output, "last_hidden_state", None)
        if maps is None:
            maps = output.feature_maps[-1]
        # float32 also under autocast: RoIAlign needs fractions of a cell.
        return (maps if maps.ndim == 4 else self._patch_map(maps)).float()

    @torch.no_grad()
    def roi_features(
        self, maps: Float[Tensor, "images channels rows columns"], boxes: Float[Tensor, "images boxes 4"]
    ) -> Float[Tensor, "images boxes channels"]:
        """Return mean-pooled, layer-normalised features of boxes relative to their images."""
        means = roi_align(maps, boxes, _ROI_SIZE).mean((3, 4))
        return F.layer_norm(means.float(), means.shape[-1:])

    def _patch_map(
        self, tokens: Float[Tensor, "images tokens channels"]
    ) -> Float[Tensor, "images channels rows columns"]:
        """Arrange patch tokens in a grid; CLS and register tokens come before them and are dropped."""
        count = tokens.shape[1]
        rows = self.image_size // self.patch_size if self.patch_size else int(count**0.5)
        if not 0 < rows * rows <= count:
            raise ValueError(f"got {count} tokens, expected at least {rows} x {rows} patches")
        patches: Tensor = tokens[:, count - rows * rows :].transpose(1, 2).unflatten(2, (rows, rows))
        return patches

    @torch.no_grad()
    def _probe(self, name: str) -> int:
        """Encode one grey image, so that an unsuitable backbone fails now; return the feature size."""
        self.eval()
        try:
            maps = self.encode_pixels(torch.zeros(1, 3, self.image_size, self.image_size))
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"backbone {name!r} cannot encode an image of {self.image_size} x {self.image_size} ({reason}): "
                f"{_REQUIREMENT}, and an image_size that it supports"
            ) from error
        return maps.shape[1]


def _patch_size(config: Any) -> int | None:
    """Side of a patch in pixels, if the backbone has square patches."""
    size = getattr(config, "patch_size", None)
    if isinstance(size, (list, tuple)) and len(set(size)) == 1:
        size = size[0]
    return size if isinstance(size, int) and size > 0 else None


def _check_image_size(image_size: int, patch_size: int | None, name: str) -> int:
    if patch_size and image_size % patch_size:
        raise InputError(
            f"image_size is {image_size}, expected a multiple of the patch size {patch_size} of backbone {name!r}: "
            f"use {max(1, round(image_size / patch_size)) * patch_size}"
        )
    return image_size


def _default_image_size(backbone: PretrainedModel, patch_size: int | None) -> int:
    """Output size of the backbone's image processor, rounded down to whole patches."""
    found = None
    for size in (
        getattr(backbone.processor, "crop_size", None),
        getattr(backbone.processor, "size", None),
        getattr(backbone.config, "image_size", None),
    ):
        found = found or _parse_size(size)
    image_size = found or _DEFAULT_IMAGE_SIZE
    return max(image_size - image_size % patch_size, patch_size) if patch_size else image_size


def _parse_size(size: Any) -> int | None:
    """Side of an image in any of the forms that transformers writes."""
    if isinstance(size, (list, tuple)):
        size = size[0] if size else None
    if size is not None and not isinstance(size, int):
        size = next((size[key] for key in ("height", "shortest_edge", "longest_edge") if size.get(key)), None)
    return size or None


def _forward_options(model: nn.Module) -> dict[str, bool]:
    """Ask for interpolated position embeddings where the model has them."""
    name = "interpolate_pos_encoding"
    return {name: True} if name in inspect.signature(model.forward).parameters else {}


def _renormalization(processor: Any) -> tuple[Float[Tensor, "3 1 1"], Float[Tensor, "3 1 1"]]:
    """Scale and shift from ImageNet normalisation to that of the backbone."""
    factor = float(getattr(processor, "rescale_factor", 1 / 255)) if getattr(processor, "do_rescale", True) else 1.0
    mean, std = torch.zeros(3), torch.ones(3)
    if getattr(processor, "do_normalize", False):
        mean = torch.tensor(processor.image_mean).float().expand(3)
        std = torch.tensor(processor.image_std).float().expand(3)
    white = 255 * factor
    scale = torch.tensor(IMAGENET_STD) * white / std
    shift = (torch.tensor(IMAGENET_MEAN) * white - mean) / std
    return scale.view(3, 1, 1), shift.view(3, 1, 1)
