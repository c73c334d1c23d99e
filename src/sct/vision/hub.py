"""Vision encoder made of Hugging Face Hub models: a backbone for features, optionally a detector for proposals."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from sct.errors import InputError, format_value
from sct.limits import MAX_DETECTIONS, MAX_IMAGE_SIDE, check_integer
from sct.regions.images import LoadedImage
from sct.regions.records import Box, Region, is_one_line
from sct.storage.artifacts import ArtifactFormat
from sct.storage.reading import parse_json
from sct.vision.box_ops import box_iou, nms
from sct.vision.hub_backbone import HubBackbone
from sct.vision.hub_loading import PretrainedModel, is_folder, load_backbone, load_detector
from sct.vision.interface import EncodedImage
from sct.vision.precision import backbone_autocast
from sct.vision.preprocess import preprocess

HUB_FORMAT = ArtifactFormat("sct hub vision encoder", "write it again with sct export-vision")
_MIN_BOX_SIZE = 1e-3
_IOU_THRESHOLD = 0.75
"""NMS over all classes: many detectors return one box under several labels."""
_NO_LABEL = "N/A"
"""Label that some detectors give to classes absent from their training data."""
_MAX_ASPECT_RATIO = 4
"""Longer images are stretched; a detector that keeps the aspect ratio would see a few rows of pixels."""
_MIN_IMAGE_SIZE = 16
"""Side in pixels; in smaller images some processors cannot tell rows from channels."""
_MIN_CLASS_IOU = 0.5
"""IoU with a detection from which a box takes its class name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubConfig:
    """Model names and settings; a saved encoder holds these instead of weights."""

    backbone: str
    """Hub name or local folder of the model that features come from."""
    backbone_revision: str | None = None
    """Commit; None for a local folder."""
    detector: str | None = None
    """Hub name or local folder of the object detector; None: no proposals and no class names."""
    detector_revision: str | None = None
    image_size: int | None = None
    """Side in pixels of the square that images are resized to; None: the backbone's own."""
    score_threshold: float = 0.2
    """Minimum detection score."""
    max_detections: int = 30

    def __post_init__(self) -> None:
        """Check ranges."""
        for role, name in (("backbone", self.backbone), ("detector", self.detector)):
            revision = getattr(self, f"{role}_revision")
            if not isinstance(name, str | None) or not isinstance(revision, str | None):
                raise InputError(f"got {role} {format_value(name)} at {format_value(revision)}, expected names")
            if name is not None and not name.strip():
                raise InputError(f"got an empty {role} name: give a model on the Hugging Face Hub or a local folder")
        if self.image_size is not None:
            check_integer("image_size", self.image_size, 1, MAX_IMAGE_SIDE)
        if not isinstance(self.score_threshold, int | float) or not 0 <= self.score_threshold <= 1:
            raise InputError(f"score_threshold is {format_value(self.score_threshold)}, expected 0 to 1")
        check_integer("max_detections", self.max_detections, 1, MAX_DETECTIONS)


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """Detections in one image, highest score first."""

    boxes: Float[Tensor, "detections 4"]
    """Relative to the image."""
    scores: Float[Tensor, " detections"]
    class_names: tuple[str | None, ...]

    @classmethod
    def empty(cls, device: torch.device) -> "Detections":
        """No detections."""
        return cls(torch.zeros(0, 4, device=device), torch.zeros(0, device=device), ())


class HubDetector:
    """Object detector of the Hub, run on one image at a time: with some detectors, batch padding moves boxes."""

    def __init__(self, pretrained: PretrainedModel, name: str, *, score_threshold: float, max_detections: int) -> None:
        """``max_detections`` are kept per image."""
        if not hasattr(pretrained.processor, "post_process_object_detection"):
            raise InputError(
                f"the image processor of detector {name!r} ({type(pretrained.processor).__name__}) has no "
                "post_process_object_detection: use another detector"
            )
        self._model, self._processor = pretrained.model, pretrained.processor
        self._class_names: dict[int, str] = {
            int(number): str(label).strip() for number, label in pretrained.config.id2label.items()
        }
        self._score_threshold, self._max_detections = score_threshold, max_detections

    def to(self, device: torch.device) -> "HubDetector":
        """Move the model to another device."""
        self._model.to(device)
        return self

    @torch.inference_mode()
    def detect(self, image: LoadedImage, device: torch.device) -> Detections:
        """Detect objects and apply NMS."""
        resized = Image.fromarray(image.pixels)
        width = max(resized.width, resized.height // _MAX_ASPECT_RATIO, _MIN_IMAGE_SIZE)
        height = max(resized.height, resized.width // _MAX_ASPECT_RATIO, _MIN_IMAGE_SIZE)
        if resized.size != (width, height):
            resized = resized.resize((width, height), Image.Resampling.BILINEAR)
        pixel_values = self._processor(images=[resized], return_tensors="pt")["pixel_values"].to(device)
        [found] = self._processor.post_process_object_detection(
            self._model(pixel_values=pixel_values),
            threshold=self._score_threshold,
            target_sizes=torch.tensor([[height, width]], device=device),
        )
        size = torch.tensor([width, height] * 2, dtype=torch.float32, device=device)
        boxes = (found["boxes"].float() / size).clamp(0, 1)
        is_box = (boxes[:, 2:] - boxes[:, :2]).amin(1) > _MIN_BOX_SIZE
        boxes, scores = boxes[is_box], found["scores"].float()[is_box].clamp(0, 1)
        kept = nms(boxes, scores, _IOU_THRESHOLD, self._max_detections)
        labels = found["labels"][is_box][kept].tolist()
        return Detections(boxes[kept], scores[kept], tuple(self._class_name(label) for label in labels))

    def _class_name(self, label: int) -> str | None:
        name = self._class_names.get(label, _NO_LABEL)
        return name if name != _NO_LABEL and is_one_line(name) else None


class _HubEncodedImage(EncodedImage):
    """Feature map and detections of an image."""

    def __init__(
        self,
        network: HubBackbone,
        image: LoadedImage,
        maps: Float[Tensor, "1 channels rows columns"],
        detections: Detections,
    ) -> None:
        self._network, self._detections = network, detections
        self._maps = maps.clone()  # or one image would keep the maps of its whole batch alive
        self._size = torch.tensor([image.width, image.height] * 2, dtype=torch.float32, device=maps.device)
        whole = torch.tensor([[0.0, 0.0, 1.0, 1.0]], device=maps.device)
        image_feature, *features = self._features(torch.cat([whole, detections.boxes]))
        boxes = (detections.boxes * self._size).tolist()
        proposals = [
            Region(Box(*box), class_name, score, feature)
            for box, class_name, score, feature in zip(
                boxes, detections.class_names, detections.scores.tolist(), features, strict=True
            )
        ]
        super().__init__(image, image_feature, proposals)

    @torch.inference_mode()
    def regions(self, boxes: Sequence[Box]) -> tuple[Region, ...]:
        """Return a region for each box, with class and score of the detection that it overlaps most, if by enough."""
        corners = torch.tensor([list(box) for box in boxes], dtype=torch.float32, device=self._size.device)
        relative = corners.view(-1, 4) / self._size
        return tuple(
            Region(box, class_name, score, feature)
            for box, (class_name, score), feature in zip(
                boxes, _match_classes(relative, self._detections), self._features(relative), strict=True
            )
        )

    def _features(self, relative: Float[Tensor, "boxes 4"]) -> Float[np.ndarray, "boxes features"]:
        return self._network.roi_features(self._maps, relative[None])[0].cpu().numpy()

    @property
    def num_bytes(self) -> int:
        """Approximate memory, mostly of the feature map."""
        return super().num_bytes + self._maps.nbytes


class HubVisionEncoder:
    """Vision encoder with models of the Hub (``sct.vision.interface.VisionEncoder``)."""

    trainable = True
    classifier = None

    def __init__(
        self,
        config: HubConfig,
        network: HubBackbone,
        detector: HubDetector | None,
        *,
        device: str | torch.device = "cpu",
    ) -> None:
        """Without a detector there are no proposals and no class names."""
        self._device = torch.device(device)
        self.config, self.network = config, network.eval().to(self._device)
        self._detector = None if detector is None else detector.to(self._device)
        self.feature_size, self.image_size = network.feature_size, network.image_size

    def to(self, device: str | torch.device) -> "HubVisionEncoder":
        """Return the encoder on another device."""
        return HubVisionEncoder(self.config, self.network, self._detector, device=device)

    @torch.inference_mode()
    def encode(self, images: Sequence[LoadedImage]) -> list[EncodedImage]:
        """Run the backbone on all images and the detector on each."""
        if not images:
            return []
        pixels = preprocess(images, self.image_size).to(self._device)
        with backbone_autocast(self._device):
            maps = self.network.encode_pixels(pixels).float()
        return [
            _HubEncodedImage(self.network, image, maps[number : number + 1], self._detect(image))
            for number, image in enumerate(images)
        ]

    def _detect(self, image: LoadedImage) -> Detections:
        if self._detector is None:
            return Detections.empty(self._device)
        return self._detector.detect(image, self._device)

    def save(self, path: Path) -> None:
        """Write model names, no weights; loading it needs the same models."""
        HUB_FORMAT.save_tensors(path, {}, {"config": json.dumps(asdict(self.config))})


def build_hub_vision(config: HubConfig, *, allow_download: bool = False) -> HubVisionEncoder:
    """Load the models from this machine or, with ``allow_download``, from the Hub, and check them on one image."""
    backbone = load_backbone(config.backbone, config.backbone_revision, allow_download=allow_download)
    network = HubBackbone(backbone, config.backbone, config.image_size)
    config = replace(
        config,
        backbone=_absolute(config.backbone),
        backbone_revision=backbone.revision,
        image_size=network.image_size,
    )
    if config.detector is None:
        return HubVisionEncoder(config, network, None)
    pretrained = load_detector(config.detector, config.detector_revision, allow_download=allow_download)
    detector = HubDetector(
        pretrained,
        config.detector,
        score_threshold=config.score_threshold,
        max_detections=config.max_detections,
    )
    config = replace(config, detector=_absolute(config.detector), detector_revision=pretrained.revision)
    return HubVisionEncoder(config, network, detector)


def save_hub_vision(path: Path, config: HubConfig) -> HubVisionEncoder:
    """Write a vision encoder file for ``sct train ... examples.vision=FILE`` and bundles.

    Models are downloaded; Hub names are pinned to their current commit, local folders are made absolute.
    """
    encoder = build_hub_vision(config, allow_download=True)
    encoder.save(path)
    return encoder


def load_hub_vision(path: Path, *, allow_download: bool = False) -> HubVisionEncoder:
    """Read what ``HubVisionEncoder.save`` wrote and load its models; only with ``allow_download`` from the Hub."""
    metadata, _ = HUB_FORMAT.load_tensors(path)
    try:
        config = HubConfig(**parse_json(metadata["config"], "its config"))
    except (KeyError, TypeError, InputError) as error:
        raise HUB_FORMAT.damaged(path, error) from error
    try:
        return build_hub_vision(config, allow_download=allow_download)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _match_classes(boxes: Float[Tensor, "boxes 4"], detections: Detections) -> list[tuple[str | None, float | None]]:
    """Class name and score of the detection with the highest IoU, or None if that is below the threshold."""
    if not detections.class_names:
        return [(None, None)] * len(boxes)
    best = box_iou(boxes, detections.boxes).max(1)
    return [
        (detections.class_names[index], detections.scores[index].item()) if iou >= _MIN_CLASS_IOU else (None, None)
        for iou, index in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]


def _absolute(name: str) -> str:
    """The absolute path of a local folder; a Hub name as it is."""
    return str(Path(name).resolve()) if is_folder(name) else name
