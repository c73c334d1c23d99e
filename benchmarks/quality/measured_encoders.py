"""Encoders that vision_encoder.py compares: what each says about an image."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from average_precision import LabeledBoxes
from efficientdet import EfficientDet
from jaxtyping import Float
from PIL import Image
from vision_truth import TruthImage

from sct.data.coco_classes import COCO_CLASSES
from sct.regions.boxes import box_iou
from sct.regions.image_source import ImageSource
from sct.vision.detect import check_region_encoder
from sct.vision.encoder import load_vision
from sct.vision.image_loader import PixelBatch, load_batches
from sct.vision.preprocess import normalize
from sct.vision.proposals import propose

LIMITS = (10, 20, 30)
"""Numbers of proposals."""
NUM_DETECTIONS = 100
MIN_IOU = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """What an encoder says about an image."""

    image: TruthImage
    box_scores: Float[np.ndarray, "boxes names"]
    """Of the human boxes; a name with score 0 is not given."""
    proposals: Float[np.ndarray, "proposals 4"]
    """Relative to the image, the best first."""
    detections: LabeledBoxes
    """COCO's classes, best first."""
    image_names: Float[np.ndarray, " names"]
    """Largest score of each name in the image."""
    image_words: Float[np.ndarray, " words"]
    """The same for the words of the word head."""


class Encoder(Protocol):
    """Encoder under test."""

    name: str
    file: Path
    class_names: tuple[str, ...]
    words: tuple[str, ...]

    def observe(self, images: Sequence[TruthImage], source: ImageSource) -> Iterator[Observation]:
        """Describe images."""
        ...

    def run(self, file: str, source: ImageSource) -> None:
        """Decode an image and find its regions, to measure the time."""
        ...


class TrainedEncoder:
    """Vision encoder of ``sct train``, or of a bundle."""

    def __init__(self, file: Path, name: str, device: torch.device, batch_size: int) -> None:
        """Load it."""
        self.name, self.file, self.device, self.batch_size = name, file, device, batch_size
        self.encoder = check_region_encoder(load_vision(file))
        self.class_names, self.words = self.encoder.class_names, self.encoder.words
        self.network = self.encoder.network.to(device).eval()
        self.coco = [self.class_names.index(name) for name in COCO_CLASSES if name in self.class_names]
        self.coco_ids = np.array([number for number, name in enumerate(COCO_CLASSES) if name in self.class_names])

    def observe(self, images: Sequence[TruthImage], source: ImageSource) -> Iterator[Observation]:
        """Describe images in batches, in bfloat16 on a GPU."""
        by_file = {image.file: image for image in images}
        on_gpu = self.device.type == "cuda"
        batches = load_batches(
            source, list(by_file), self.encoder.image_size, self.batch_size, in_processes=on_gpu, on_error=print
        )
        for batch in batches:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=on_gpu):
                observations = self._observe([by_file[name] for name in batch.names], batch)
            yield from observations

    @torch.inference_mode()
    def _observe(self, images: Sequence[TruthImage], batch: PixelBatch) -> list[Observation]:
        network = self.network
        maps = network.encode_pixels(normalize(torch.from_numpy(batch.pixels).to(self.device)))
        found = propose(network, maps, NUM_DETECTIONS)
        human = torch.zeros(len(images), max(len(image.boxes) for image in images), 4)
        for row, image in enumerate(images):
            human[row, : len(image.boxes)] = torch.from_numpy(image.boxes)
        whole = torch.tensor([0.0, 0.0, 1.0, 1.0]).expand(len(images), 1, 4)
        boxes = torch.cat([whole.to(self.device), found.boxes, human.to(self.device)], dim=1)
        features = network.box_features(maps, boxes)
        classes = network.class_head(features).float().softmax(-1)
        is_seen = torch.cat([torch.ones_like(found.is_proposal[:, :1]), found.is_proposal[:, : LIMITS[-1]]], dim=1)
        seen = is_seen.shape[1]
        words = (
            network.word_head(features[:, :seen]).float().sigmoid() if self.words else features[:, :seen, :0].float()
        )
        last = 1 + found.boxes.shape[1]
        scores = (found.scores * found.is_proposal)[..., None] * classes[:, 1:last, self.coco]
        best = scores.flatten(1).topk(min(NUM_DETECTIONS, scores[0].numel()))
        values = (
            classes[:, last:], found.boxes, best.values, best.indices,
            (classes[:, :seen] * is_seen[..., None]).amax(1), (words * is_seen[..., None]).amax(1),
        )  # fmt: skip
        box_scores, proposals, best_scores, rows, image_names, image_words = (tensor.cpu().numpy() for tensor in values)
        counts = found.is_proposal.sum(1).tolist()
        return [
            Observation(
                image,
                box_scores[n, : len(image.boxes)],
                proposals[n, : counts[n]],
                LabeledBoxes(
                    proposals[n][rows[n] // len(self.coco)], self.coco_ids[rows[n] % len(self.coco)], best_scores[n]
                ),
                image_names[n],
                image_words[n],
            )
            for n, image in enumerate(images)
        ]

    def run(self, file: str, source: ImageSource) -> None:
        """Encode one image with its proposals, as captioning does."""
        self.encoder.encode([source.load(file)])


class DetectorEncoder:
    """EfficientDet-Lite, which scores no boxes but its own."""

    words: tuple[str, ...] = ()

    def __init__(self, weights: Path, threads: int) -> None:
        """Load the network."""
        self.name, self.file, self.class_names = "EfficientDet-Lite2", weights, tuple(COCO_CLASSES)
        self.detect = EfficientDet(weights, threads)

    def observe(self, images: Sequence[TruthImage], source: ImageSource) -> Iterator[Observation]:
        """Describe images one by one."""
        for image in images:
            loaded = source.load(image.file)
            found = self.detect(Image.fromarray(loaded.pixels), -1.0)
            found.sort(key=lambda detection: -detection["score"])
            sides = np.array([loaded.pixels.shape[1], loaded.pixels.shape[0]] * 2)
            boxes = np.array([detection["box"] for detection in found], np.float64).reshape(-1, 4) / sides
            classes = np.array([self.class_names.index(detection["class"]) for detection in found], np.int64)
            scores = np.array([detection["score"] for detection in found])
            by_name = np.zeros((len(found), len(self.class_names)))
            by_name[np.arange(len(found)), classes] = scores
            overlaps = box_iou(image.boxes.astype(np.float64), boxes) >= MIN_IOU
            yield Observation(
                image,
                (overlaps[..., None] * by_name).max(axis=1, initial=0.0),
                boxes,
                LabeledBoxes(boxes, classes, scores),
                by_name.max(axis=0, initial=0.0),
                np.zeros(0),
            )

    def run(self, file: str, source: ImageSource) -> None:
        """Detect objects."""
        self.detect(Image.fromarray(source.load(file).pixels), -1.0)
