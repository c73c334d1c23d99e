"""Recall of human boxes among the first proposals of an image.

    python benchmarks/quality/proposal_recall.py DATA/val.jsonl --shapes DATA/train.jsonl
    python benchmarks/quality/proposal_recall.py DATA/val.jsonl --efficientdet efficientdet-lite2.tflite
    python benchmarks/quality/proposal_recall.py DATA/val.jsonl --bundle default

Options combine: one row per proposer, and one per pair of them. Images are in ``images`` next to the grounded JSONL
file; efficientdet.py says where its weights come from. A box is found if a proposal overlaps it with IoU 0.5 or more,
and counts once per image, however many phrases it grounds. Time is the median per image, decoding included.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, zip_longest
from pathlib import Path
from typing import Protocol

import numpy as np
from efficientdet import EfficientDet
from jaxtyping import Float
from PIL import Image

from sct.data.readers.errors import ReadErrors
from sct.data.readers.grounded_jsonl import read_grounded_jsonl
from sct.errors import InputError
from sct.regions.boxes import box_iou

MIN_IOU = 0.5
NMS_IOU = 0.7
LIMITS = (10, 20, 30)

Boxes = Float[np.ndarray, "boxes 4"]


class Proposer(Protocol):
    """Proposes boxes of an image."""

    name: str

    def propose(self, image: Path) -> Boxes:
        """Return boxes in pixels, the best first."""
        ...


class Detector:
    """All detections of EfficientDet-Lite (at most 25), whatever their score."""

    name = "EfficientDet-Lite2"

    def __init__(self, weights: Path, threads: int) -> None:
        """Load the network."""
        try:
            self.detect = EfficientDet(weights, threads)
        except ModuleNotFoundError as error:
            raise InputError(f"{error}: install LiteRT with pip install ai-edge-litert==2.3.0") from error

    def propose(self, image: Path) -> Boxes:
        """Return boxes by descending score."""
        with Image.open(image) as opened:
            found = self.detect(opened, -1.0)
        scores = np.array([detection["score"] for detection in found], np.float64)
        boxes = np.array([detection["box"] for detection in found], np.float64).reshape(-1, 4)
        ordered: Boxes = boxes[np.argsort(-scores, kind="stable")]
        return ordered


class CommonShapes:
    """The most common boxes of training images, whatever the image."""

    name = "common training boxes"

    def __init__(self, train: Path, num_shapes: int = max(LIMITS), seed: int = 1) -> None:
        """Cluster the training boxes by their relative corners."""
        relative = np.concatenate([image.boxes / image.sides for image in read_images(train)])
        self.shapes = cluster(relative, num_shapes, np.random.default_rng(seed))

    def propose(self, image: Path) -> Boxes:
        """Return the cluster centres, that of the largest cluster first."""
        with Image.open(image) as opened:
            boxes: Boxes = self.shapes * np.array([*opened.size, *opened.size])
        return boxes


class BundleProposals:
    """Proposals of a bundle's vision encoder."""

    def __init__(self, bundle: str) -> None:
        """Load it on the CPU."""
        import sct  # noqa: PLC0415  needs torch, which the other proposers do without

        vision = sct.load(bundle).vision
        if vision is None:
            raise InputError(f"bundle {bundle} has no vision encoder: use one that has, such as default")
        self.name = f"bundle {Path(bundle).name}"
        self.vision = vision

    def propose(self, image: Path) -> Boxes:
        """Return proposals by descending objectness."""
        from sct.regions.images import load_image  # noqa: PLC0415

        [encoded] = self.vision.encode([load_image(image)])
        return np.array([region.box for region in encoded.proposals], np.float64).reshape(-1, 4)


class Interleaved:
    """Two proposers in turn, without boxes that overlap an earlier one with IoU above 0.7."""

    def __init__(self, first: Proposer, second: Proposer) -> None:
        """Join the names."""
        self.first, self.second = first, second
        self.name = f"{first.name} + {second.name}"

    def propose(self, image: Path) -> Boxes:
        """Return the best of the first, the best of the second, and so on, then the rest of the longer one."""
        turns = zip_longest(self.first.propose(image), self.second.propose(image))
        boxes = np.array([box for turn in turns for box in turn if box is not None], np.float64).reshape(-1, 4)
        overlaps = box_iou(boxes, boxes)
        kept: list[int] = []
        for index in range(len(boxes)):
            if not (overlaps[index, kept] > NMS_IOU).any():
                kept.append(index)
        distinct: Boxes = boxes[kept]
        return distinct


@dataclass(frozen=True, slots=True, eq=False)
class GroundedImage:
    """An image and the distinct boxes that ground its captions."""

    file: Path
    boxes: Boxes
    sides: Float[np.ndarray, " 4"]
    """Width, height, width, height."""


def read_images(path: Path) -> Iterator[GroundedImage]:
    """Read the images of a grounded JSONL file with human boxes; detections are ignored."""
    for image in read_grounded_jsonl({"val": path}, ReadErrors()):
        used = {number for caption in image.captions for chunk in caption.chunks or () for number in chunk.regions}
        if used:
            boxes = np.array([image.regions[number].box for number in sorted(used)], np.float64)
            sides = np.array([image.width, image.height] * 2, np.float64)
            yield GroundedImage(path.parent / "images" / str(image.file), boxes, sides)


def cluster(
    points: Float[np.ndarray, "points 4"], num_clusters: int, random: np.random.Generator
) -> Float[np.ndarray, "clusters 4"]:
    """Centres of k-means clusters, the largest first."""
    centers = points[random.choice(len(points), num_clusters, replace=False)]
    while True:
        nearest = ((points[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        # An empty cluster keeps its centre.
        moved = np.array(
            [points[nearest == number].mean(axis=0) if (nearest == number).any() else center
             for number, center in enumerate(centers)]
        )  # fmt: skip
        if np.allclose(moved, centers, atol=1e-4):
            break
        centers = moved
    by_size: Float[np.ndarray, "clusters 4"] = moved[np.argsort(-np.bincount(nearest, minlength=num_clusters))]
    return by_size


@dataclass(frozen=True, slots=True)
class Result:
    """Recall and cost of a proposer."""

    recalls: tuple[float, ...]
    """Per limit in ``LIMITS``."""
    boxes_per_image: float
    milliseconds: float


def measure(proposer: Proposer, images: Sequence[GroundedImage]) -> Result:
    """Propose boxes for every image and count the human boxes found."""
    proposer.propose(images[0].file)  # warm up
    found = np.zeros(len(LIMITS))
    counts, seconds = [], []
    for image in images:
        start = time.perf_counter()
        boxes = proposer.propose(image.file)
        seconds.append(time.perf_counter() - start)
        counts.append(len(boxes))
        hits = box_iou(image.boxes, boxes) >= MIN_IOU
        found += [hits[:, :limit].any(axis=1).sum() for limit in LIMITS]
    expected = sum(len(image.boxes) for image in images)
    return Result(tuple(found / expected), float(np.mean(counts)), float(np.median(seconds)) * 1000)


def main() -> None:
    """Print one Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="grounded JSONL file with the images to measure on")
    parser.add_argument("--shapes", type=Path, metavar="TRAIN.jsonl", help="propose its most common boxes")
    parser.add_argument("--efficientdet", type=Path, metavar="WEIGHTS.tflite")
    parser.add_argument("--bundle", help="a folder, or default")
    parser.add_argument("--threads", type=int, default=2, help="of EfficientDet")
    parser.add_argument("--limit", type=int, default=None, help="maximum images")
    options = parser.parse_args()
    proposers: list[Proposer] = []
    # Better ones first: they go first when interleaved.
    if options.bundle is not None:
        proposers.append(BundleProposals(options.bundle))
    if options.efficientdet is not None:
        proposers.append(Detector(options.efficientdet, options.threads))
    if options.shapes is not None:
        proposers.append(CommonShapes(options.shapes))
    if not proposers:
        parser.error("nothing to measure: give --shapes, --efficientdet or --bundle")
    images = list(read_images(options.source))[: options.limit]
    if not images:
        parser.error(f"{options.source} has no human-grounded image")
    print(f"{sum(len(image.boxes) for image in images)} boxes of {len(images)} images\n")
    print("| proposals |", *(f"first {limit} |" for limit in LIMITS), "boxes per image | ms per image |")
    print("| --- |", "---: |" * (len(LIMITS) + 2))
    for proposer in [*proposers, *(Interleaved(*pair) for pair in combinations(proposers, 2))]:
        result = measure(proposer, images)
        recalls = (f"{100 * recall:.1f} % |" for recall in result.recalls)
        print(f"| {proposer.name} |", *recalls, f"{result.boxes_per_image:.1f} | {result.milliseconds:.0f} |")


if __name__ == "__main__":
    main()
