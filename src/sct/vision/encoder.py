"""The regions of an image that are worth talking about, found in two looks.

An image after one look at it: further boxes in it cost no new look.

What sees images in a bundle: the network, with the names it knows.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from jaxtyping import Float
from PIL import Image
from safetensors import SafetensorError, safe_open
from torch import Tensor

from sct.errors import InputError
from sct.regions.images import LoadedImage
from sct.regions.records import Box, Region
from sct.storage.atomic import atomic_write
from sct.storage.int8 import pack, unpack
from sct.storage.skip_init import SkipInit
from sct.vision.box_ops import moved, nms
from sct.vision.interface import NetworkVision, Sight
from sct.vision.region_network import FeatureMaps, RegionEncoder, RegionEncoderConfig
from sct.vision.vit import TransformerConfig

_ANCHORS, _CANDIDATES = 1200, 120
_LARGEST_OVERLAP_FIRST, _LARGEST_OVERLAP = 0.75, 0.6
_SMALLEST_SIDE = 1e-3
"""Relative to the image; a thinner box is nothing that a person would point at."""


@dataclass(frozen=True, slots=True, eq=False)
class Proposals:
    """Boxes of one image, the best first."""

    boxes: Float[Tensor, "proposals 4"]
    """Relative to the image."""
    worth: Float[Tensor, " proposals"]
    """From 0 to 1, by both looks: whether people would name something there, and how well the box fits it."""


@torch.no_grad()
def propose(network: RegionEncoder, maps: FeatureMaps, limit: int) -> list[Proposals]:
    """At most ``limit`` regions of each image: the best anchors, moved, looked at again, and without doubles."""
    found = network.anchored(maps)
    proposals = []
    for number, (worth, deltas) in enumerate(zip(found.worth, found.deltas, strict=True)):
        best = worth.topk(min(_ANCHORS, len(worth)))
        boxes = moved(network.anchors[best.indices], deltas[best.indices])
        candidates = nms(boxes, best.values, _LARGEST_OVERLAP_FIRST, _CANDIDATES)
        features = network.looks(maps.of(number), boxes[None, candidates])[0]
        # The second look has learned from the best anchors alone: of the others the first knows more.
        looks = best.values[candidates].sigmoid(), network.worth(features).squeeze(1).float().sigmoid()
        judged = (looks[0] * looks[1]).sqrt()
        boxes = moved(boxes[candidates], network.refine(features).float())
        is_box = (boxes[:, 2:] - boxes[:, :2]).amin(1) > _SMALLEST_SIDE
        boxes, judged = boxes[is_box], judged[is_box]
        kept = nms(boxes, judged, _LARGEST_OVERLAP, limit)
        proposals.append(Proposals(boxes[kept], judged[kept]))
    return proposals


_WHOLE = (0.0, 0.0, 1.0, 1.0)
_BYTES_OF_A_RECORD = 1000
"""About what a region's box, name and score take up as Python objects."""


class Glimpse:
    """The maps that the network made of an image: the larger part of a look, and less than its pixels."""

    def __init__(
        self,
        network: RegionEncoder,
        names: tuple[str, ...],
        image: LoadedImage,
        maps: FeatureMaps,
        proposals: Proposals,
    ) -> None:
        """``maps`` and ``proposals`` are of this image alone."""
        self._network, self._names = network, names
        self._maps = FeatureMaps(maps.full.clone(), maps.reduced.clone(), maps.whole.clone())  # not of a whole batch
        self._size = maps.full.new_tensor([image.width, image.height] * 2)
        boxes = torch.cat([self._size.new_tensor([_WHOLE]), proposals.boxes])
        whole, *found = self._regions(boxes, [Box(*box) for box in (boxes * self._size).tolist()])
        assert whole.feature is not None
        self._descriptor = whole.feature
        self._proposals = tuple(
            Region(region.box, region.class_name, worth, region.feature)
            for region, worth in zip(found, proposals.worth.tolist(), strict=True)
        )

    @torch.inference_mode()
    def sight(self, boxes: Sequence[Box]) -> Sight:
        """What is seen in these boxes, and in the image."""
        rows = self._size.new_tensor([list(box) for box in boxes]).view(-1, 4) / self._size
        return Sight(self._descriptor, tuple(self._regions(rows, boxes)), self._proposals)

    def _regions(self, rows: Float[Tensor, "boxes 4"], boxes: Sequence[Box]) -> list[Region]:
        """Regions of boxes, relative to the image and in its pixels; the score is that of the name."""
        looks = self._network.looks(self._maps, rows[None])[0]
        names = self._network.name(looks)
        named, features = names.softmax(1).max(1), self._network.told(looks, names)
        return [
            Region(box, self._names[name], score, feature)
            for box, name, score, feature in zip(
                boxes, named.indices.tolist(), named.values.tolist(), features.cpu().numpy(), strict=True
            )
        ]

    @property
    def num_bytes(self) -> int:
        """About what it takes up."""
        maps = (self._maps.full, self._maps.reduced, self._maps.whole)
        records = (1 + len(self._proposals)) * (_BYTES_OF_A_RECORD + self._descriptor.nbytes)
        return sum(tensor.nbytes for tensor in maps) + records


_FORMAT = "sct sight 1"
MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet's colours, which the transformer was first trained with."""


class RegionVisionEncoder:
    """Sees regions in images (``sct.vision.interface.Vision``)."""

    def __init__(
        self, network: RegionEncoder, names: tuple[str, ...], *, device: str | torch.device = "cpu", proposals: int = 30
    ) -> None:
        """``proposals``: how many regions it proposes for an image, at most."""
        if len(names) != network.config.num_classes:
            raise InputError(f"{len(names)} names came for a network of {network.config.num_classes}: expected as many")
        self.network, self.names, self.num_proposals = network.eval().to(device), names, proposals
        self.feature_size, self.side = network.config.output_size, network.config.side
        self._device = torch.device(device)

    def to(self, device: str | torch.device) -> "RegionVisionEncoder":
        """The same on another device."""
        return RegionVisionEncoder(self.network, self.names, device=device, proposals=self.num_proposals)

    def look(self, images: Sequence[LoadedImage], boxes: Sequence[Sequence[Box]]) -> list[Sight]:
        """Look once at each image, at the boxes that are asked for and for regions worth talking about."""
        if len(images) != len(boxes):
            raise InputError(f"{len(images)} images came with {len(boxes)} lists of boxes: expected one for each")
        return [glimpse.sight(asked) for glimpse, asked in zip(self.glimpse(images), boxes, strict=True)]

    @torch.inference_mode()
    def glimpse(self, images: Sequence[LoadedImage]) -> list[Glimpse]:
        """Look once at each image, for who asks about more boxes in it later."""
        if not images:
            return []
        maps = self.network.look(prepared(images, self.side).to(self._device))
        found = propose(self.network, maps, self.num_proposals)
        return [
            Glimpse(self.network, self.names, image, maps.of(number), proposals)
            for number, (image, proposals) in enumerate(zip(images, found, strict=True))
        ]

    def save(self, path: Path) -> None:
        """Write it as one safetensors file, large matrices in 8 bits."""
        about = {
            "format": _FORMAT,
            "config": json.dumps(asdict(self.network.config)),
            "names": json.dumps(self.names),
        }
        with atomic_write(path) as file:
            file.write(safetensors.torch.save(pack(self.network.state_dict()), metadata=about))


def load_vision(path: Path) -> NetworkVision:
    """Read what ``RegionVisionEncoder.save`` wrote, or ``sct.vision.hub.HubVisionEncoder.save``."""
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            if about.get("format") != _FORMAT:
                return _load_other(about, path)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except OSError as error:
        raise InputError(
            f'{path} cannot be read ({error}): expected the vision.safetensors of a run with task = "sight"'
        ) from error
    except SafetensorError as error:
        raise InputError(f"{path} is no whole network that sees ({error}): copy it again") from error
    try:
        settings = json.loads(about["config"])
        names = tuple(json.loads(about["names"]))
        config = RegionEncoderConfig(**{**settings, "transformer": TransformerConfig(**settings["transformer"])})
        with SkipInit():
            network = RegionEncoder(config)
        network.load_state_dict(unpack(tensors), assign=True)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        what = str(error).splitlines()[-1].strip()
        raise InputError(f"{path} is not as this sct writes such networks ({what}): make it again") from error
    network.build_anchors()
    return RegionVisionEncoder(network, names)


def _load_other(about: dict[str, str], path: Path) -> NetworkVision:
    from sct.vision.hub import FORMAT, hub_vision_of  # noqa: PLC0415

    if about.get("format") != FORMAT:
        raise InputError(f"{path} has format {about.get('format')!r}: expected {_FORMAT!r} or {FORMAT!r}")
    return hub_vision_of(about, path)


def prepared(images: Sequence[LoadedImage], side: int) -> Float[Tensor, "images 3 side side"]:
    """Images as the network takes them: each a square of its side, whatever shape it had."""
    squares = [squared(image.pixels, side) for image in images]
    return normalised(torch.from_numpy(np.stack(squares)))


def squared(pixels: np.ndarray, side: int) -> np.ndarray:
    """An image as a square of whole numbers, channels first."""
    resized = Image.fromarray(pixels).resize((side, side), Image.Resampling.BICUBIC)
    return np.asarray(resized).transpose(2, 0, 1)


def normalised(pixels: Tensor) -> Float[Tensor, "images 3 side side"]:
    """Colours from 0 to 255 as the network expects them."""
    mean, spread = (torch.tensor(values, device=pixels.device).view(3, 1, 1) for values in (MEAN, IMAGENET_STD))
    return (pixels.float() / 255 - mean) / spread
