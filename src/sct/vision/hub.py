"""Which models of the hub see, and how.

A detector of the hub: boxes, names and scores in an image.

What sees images by models of the hub.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import safetensors.torch
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from sct.errors import InputError
from sct.regions.images import LoadedImage
from sct.regions.records import Box, Region, is_one_line
from sct.storage.atomic import atomic_write
from sct.vision.box_ops import nms, overlaps
from sct.vision.encoder import prepared
from sct.vision.hub_backbone import HubNetwork
from sct.vision.hub_loading import PretrainedModel, fetch_backbone, fetch_detector
from sct.vision.interface import Sight


@dataclass(frozen=True, slots=True, kw_only=True)
class HubConfig:
    """Names instead of weights: what a file of such eyes holds."""

    backbone: str
    """What features come from: its name on the hub, or a local folder."""
    backbone_revision: str | None = None
    """The commit that is fetched; none for a local folder."""
    detector: str | None = None
    """What proposals and names come from; without one there are none."""
    detector_revision: str | None = None
    side: int | None = None
    """Pixels of the square that every image is brought to; none: what the backbone's own preparation makes."""
    score_threshold: float = 0.2
    """What a detection must score to count."""
    max_proposals: int = 30

    def __post_init__(self) -> None:
        """Refuse what cannot be looked with."""
        for what, name in (("backbone", self.backbone), ("detector", self.detector)):
            if name is not None and not name.strip():
                raise InputError(f"the {what} has no name: expected one of the Hugging Face hub, or a local folder")
        if self.side is not None and self.side < 1:
            raise InputError(f"side is {self.side}: expected at least 1 pixel")
        if not 0 <= self.score_threshold <= 1:
            raise InputError(f"score_threshold is {self.score_threshold}: expected 0 to 1")
        if self.max_proposals < 1:
            raise InputError(f"max_proposals is {self.max_proposals}: expected at least 1")


_SMALLEST_SIDE = 1e-3
_LARGEST_OVERLAP = 0.75
"""Of two detections, whatever their names: many detectors offer one box under several."""
_NO_NAME = "N/A"
"""How some detectors call classes that no image of their data showed."""
_LONGEST_SHAPE = 4
"""Longer images are stretched: detectors keep the shape, and would see a few rows of pixels."""
_SMALLEST_IMAGE = 16
"""Pixels of a side; in smaller ones some preparation cannot tell rows from colours."""


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """What was found in one image, the best first."""

    boxes: Float[Tensor, "detections 4"]
    """Relative to the image."""
    scores: Float[Tensor, " detections"]
    names: tuple[str | None, ...]

    @classmethod
    def none(cls, device: torch.device) -> "Detections":
        """Nothing was found."""
        return cls(torch.zeros(0, 4, device=device), torch.zeros(0, device=device), ())


class HubDetector:
    """Finds objects, one image at a time: what pads a batch moves the boxes of some detectors."""

    def __init__(self, fetched: PretrainedModel, name: str, *, score_threshold: float, limit: int) -> None:
        """``limit``: how many detections are kept of an image, at most."""
        if not hasattr(fetched.processor, "post_process_object_detection"):
            kind = type(fetched.processor).__name__
            raise InputError(f"what prepares images for detector {name!r} ({kind}) makes no boxes: expected another")
        self._model, self._processor = fetched.model, fetched.processor
        self._names: dict[int, str] = {
            int(number): str(label).strip() for number, label in fetched.config.id2label.items()
        }
        self._least_score, self._limit = score_threshold, limit

    def to(self, device: torch.device) -> "HubDetector":
        """The same on another device."""
        self._model.to(device)
        return self

    @torch.inference_mode()
    def detect(self, image: LoadedImage, device: torch.device) -> Detections:
        """Look for all objects that it knows."""
        resized = Image.fromarray(image.pixels)
        width = max(resized.width, resized.height // _LONGEST_SHAPE, _SMALLEST_IMAGE)
        height = max(resized.height, resized.width // _LONGEST_SHAPE, _SMALLEST_IMAGE)
        if resized.size != (width, height):
            resized = resized.resize((width, height), Image.Resampling.BILINEAR)
        given = self._processor(images=[resized], return_tensors="pt")["pixel_values"].to(device)
        [found] = self._processor.post_process_object_detection(
            self._model(pixel_values=given),
            threshold=self._least_score,
            target_sizes=torch.tensor([[height, width]], device=device),
        )
        size = torch.tensor([width, height] * 2, dtype=torch.float32, device=device)
        boxes = (found["boxes"].float() / size).clamp(0, 1)
        is_box = (boxes[:, 2:] - boxes[:, :2]).amin(1) > _SMALLEST_SIDE
        boxes, scores = boxes[is_box], found["scores"].float()[is_box].clamp(0, 1)
        kept = nms(boxes, scores, _LARGEST_OVERLAP, self._limit)
        labels = found["labels"][is_box][kept].tolist()
        return Detections(boxes[kept], scores[kept], tuple(self._name(label) for label in labels))

    def _name(self, label: int) -> str | None:
        name = self._names.get(label, _NO_NAME)
        return name if name != _NO_NAME and is_one_line(name) else None


FORMAT = "sct hub vision 1"
_LEAST_OVERLAP = 0.5
"""Of a box that somebody asks for with a detection, for it to have its name."""


class HubVisionEncoder:
    """Sees regions in images (``sct.vision.interface.NetworkVision``)."""

    def __init__(
        self,
        config: HubConfig,
        network: HubNetwork,
        detector: HubDetector | None,
        *,
        device: str | torch.device = "cpu",
    ) -> None:
        """Without a detector nothing is proposed, and nothing has a name."""
        self._device = torch.device(device)
        self.config, self.network = config, network.eval().to(self._device)
        self._detector = None if detector is None else detector.to(self._device)
        self.feature_size, self.side = network.feature_size, network.side

    def to(self, device: str | torch.device) -> "HubVisionEncoder":
        """The same on another device."""
        return HubVisionEncoder(self.config, self.network, self._detector, device=device)

    @torch.inference_mode()
    def look(self, images: Sequence[LoadedImage], boxes: Sequence[Sequence[Box]]) -> list[Sight]:
        """Look at each image, at the boxes that are asked for and for objects that the detector knows."""
        if len(images) != len(boxes):
            raise InputError(f"{len(images)} images came with {len(boxes)} lists of boxes: expected one for each")
        if not images:
            return []
        maps = self.network.look(prepared(images, self.side).to(self._device))
        return [
            self._sight(image, asked, maps[number : number + 1])
            for number, (image, asked) in enumerate(zip(images, boxes, strict=True))
        ]

    def _sight(self, image: LoadedImage, asked: Sequence[Box], maps: Float[Tensor, "1 channels rows columns"]) -> Sight:
        found = Detections.none(self._device)
        if self._detector is not None:
            found = self._detector.detect(image, self._device)
        size = torch.tensor([image.width, image.height] * 2, dtype=torch.float32, device=self._device)
        expected = (
            torch.tensor([list(box) for box in asked], dtype=torch.float32, device=self._device).view(-1, 4) / size
        )
        rows = torch.cat([torch.tensor([[0.0, 0.0, 1.0, 1.0]], device=self._device), expected, found.boxes])
        descriptor, *features = self.network.features(maps, rows[None])[0].cpu().numpy()
        regions = [
            Region(box, name, score, feature)
            for box, (name, score), feature in zip(asked, _named(expected, found), features[: len(asked)], strict=True)
        ]
        proposals = [
            Region(Box(*box), name, score, feature)
            for box, name, score, feature in zip(
                (found.boxes * size).tolist(), found.names, found.scores.tolist(), features[len(asked) :], strict=True
            )
        ]
        return Sight(descriptor, tuple(regions), tuple(proposals))

    def save(self, path: Path) -> None:
        """Write the names of the models and no weights; who reads it needs the same models."""
        about = {"format": FORMAT, "config": json.dumps(asdict(self.config))}
        with atomic_write(path) as file:
            file.write(safetensors.torch.save({}, metadata=about))


def open_hub_vision(config: HubConfig) -> HubVisionEncoder:
    """Fetch the models, from the hub or from this machine, and look at one image to see that they can."""
    backbone = fetch_backbone(config.backbone, config.backbone_revision)
    network = HubNetwork(backbone, config.backbone, config.side)
    config = replace(config, backbone=_lasting(config.backbone), backbone_revision=backbone.revision, side=network.side)
    if config.detector is None:
        return HubVisionEncoder(config, network, None)
    fetched = fetch_detector(config.detector, config.detector_revision)
    detector = HubDetector(fetched, config.detector, score_threshold=config.score_threshold, limit=config.max_proposals)
    config = replace(config, detector=_lasting(config.detector), detector_revision=fetched.revision)
    return HubVisionEncoder(config, network, detector)


def save_hub_vision(path: Path, config: HubConfig) -> HubVisionEncoder:
    """Write a file that ``sct train ... examples.vision=FILE`` and bundles see with.

    Names are pinned to the commit that they stand for today, a local folder to its full path.
    """
    eye = open_hub_vision(config)
    eye.save(path)
    return eye


def hub_vision_of(about: Mapping[str, str], path: Path) -> HubVisionEncoder:
    """Read what ``HubVisionEncoder.save`` wrote about itself."""
    try:
        config = HubConfig(**json.loads(about["config"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} does not say which models see ({error}): make it anew (sct.regions.hub)") from error
    try:
        return open_hub_vision(config)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _named(boxes: Float[Tensor, "boxes 4"], found: Detections) -> list[tuple[str | None, float | None]]:
    """Name and score of the detection that a box overlaps most, where that is much."""
    if not found.names:
        return [(None, None)] * len(boxes)
    best = overlaps(boxes, found.boxes).max(1)
    return [
        (found.names[place], found.scores[place].item()) if overlap >= _LEAST_OVERLAP else (None, None)
        for overlap, place in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]


def _lasting(name: str) -> str:
    """A name that leads to the same model from any folder."""
    return str(Path(name).resolve()) if Path(name).is_dir() else name
