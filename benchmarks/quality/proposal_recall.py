"""How many of the boxes that people ground captions on are among the first proposals for an image?

    python benchmarks/quality/proposal_recall.py DATA/val.jsonl --shapes DATA/train.jsonl
    python benchmarks/quality/proposal_recall.py DATA/val.jsonl --efficientdet efficientdet-lite2.tflite    # as in efficientdet.py
    python benchmarks/quality/proposal_recall.py DATA/val.jsonl --bundle default

Options add up: one row for each proposer, and one for each two of them together. Images lie in ``images`` beside the
grounded JSONL file. A box is found when a proposal overlaps it by IoU 0.5 or more; boxes count once in each image,
however many phrases rest on them. The time is the median for one image, decoding included.
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

FOUND_AT = 0.5
DOUBLES_AT = 0.7
LIMITS = (10, 20, 30)

Boxes = Float[np.ndarray, "boxes 4"]


class Proposer(Protocol):
    """Says where in an image something worth talking about may be."""

    name: str

    def propose(self, image: Path) -> Boxes:
        """Boxes in pixels, the best first."""
        ...


class Detector:
    """EfficientDet-Lite: all its detections (it gives at most 25), whatever their score."""

    name = "EfficientDet-Lite2"

    def __init__(self, weights: Path, threads: int) -> None:
        """Load the network."""
        try:
            self.detect = EfficientDet(weights, threads)
        except ModuleNotFoundError as error:
            raise InputError(f"{error}: expected LiteRT, get it with pip install ai-edge-litert==2.3.0") from error

    def propose(self, image: Path) -> Boxes:
        """Boxes by falling score."""
        with Image.open(image) as opened:
            found = self.detect(opened, -1.0)
        scores = np.array([detection["score"] for detection in found], np.float64)
        boxes = np.array([detection["box"] for detection in found], np.float64).reshape(-1, 4)
        ordered: Boxes = boxes[np.argsort(-scores, kind="stable")]
        return ordered


class CommonShapes:
    """Looks at no image: the places and sizes that boxes of the training images have most often."""

    name = "common training boxes"

    def __init__(self, train: Path, num_shapes: int = max(LIMITS), seed: int = 1) -> None:
        """Cluster the training boxes by their corners, relative to the image's sides."""
        relative = np.concatenate([image.boxes / image.sides for image in read_images(train)])
        self.shapes = common_points(relative, num_shapes, np.random.default_rng(seed))

    def propose(self, image: Path) -> Boxes:
        """The same relative boxes for every image, those of the largest cluster first."""
        with Image.open(image) as opened:
            boxes: Boxes = self.shapes * np.array([*opened.size, *opened.size])
        return boxes


class OfBundle:
    """What a trained bundle sees."""

    def __init__(self, bundle: str) -> None:
        """Load it on the CPU."""
        import sct  # noqa: PLC0415  needs torch, which the other proposers do without

        vision = sct.load(bundle).vision
        if vision is None:
            raise InputError(f"bundle {bundle} sees no images: expected one with what sees, such as the default one")
        self.name = f"bundle {Path(bundle).name}"
        self.vision = vision

    def propose(self, image: Path) -> Boxes:
        """Boxes as the bundle ranks them."""
        from sct.regions.images import load_image  # noqa: PLC0415

        [encoded] = self.vision.encode([load_image(image)])
        return np.array([region.box for region in encoded.proposals], np.float64).reshape(-1, 4)


class Together:
    """Two proposers by turns, less what overlaps an earlier box by more than IoU 0.7."""

    def __init__(self, first: Proposer, second: Proposer) -> None:
        """Name it after both."""
        self.first, self.second = first, second
        self.name = f"{first.name} + {second.name}"

    def propose(self, image: Path) -> Boxes:
        """The best of the first, the best of the second, and so on; when one has no more, the rest of the other."""
        turns = zip_longest(self.first.propose(image), self.second.propose(image))
        boxes = np.array([box for turn in turns for box in turn if box is not None], np.float64).reshape(-1, 4)
        overlaps = box_iou(boxes, boxes)
        kept: list[int] = []
        for place in range(len(boxes)):
            if not (overlaps[place, kept] > DOUBLES_AT).any():
                kept.append(place)
        distinct: Boxes = boxes[kept]
        return distinct


@dataclass(frozen=True, slots=True, eq=False)
class GroundedImage:
    """An image and the boxes that phrases of its captions rest on, each once."""

    file: Path
    boxes: Boxes
    sides: Float[np.ndarray, " 4"]
    """Width, height, width, height."""


def read_images(path: Path) -> Iterator[GroundedImage]:
    """Images of a grounded JSONL file that have such boxes; what a detector found is no such box."""
    for image in read_grounded_jsonl({"val": path}, ReadErrors()):
        used = {number for caption in image.captions for chunk in caption.chunks or () for number in chunk.regions}
        if used:
            boxes = np.array([image.regions[number].box for number in sorted(used)], np.float64)
            sides = np.array([image.width, image.height] * 2, np.float64)
            yield GroundedImage(path.parent / "images" / str(image.file), boxes, sides)


def common_points(
    points: Float[np.ndarray, "points 4"], num_clusters: int, random: np.random.Generator
) -> Float[np.ndarray, "clusters 4"]:
    """Centres of clusters (k-means), the most populous first."""
    centres = points[random.choice(len(points), num_clusters, replace=False)]
    while True:
        nearest = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        # A cluster that lost all its points stays where it was.
        moved = np.array(
            [points[nearest == number].mean(axis=0) if (nearest == number).any() else centre
             for number, centre in enumerate(centres)]
        )  # fmt: skip
        if np.allclose(moved, centres, atol=1e-4):
            break
        centres = moved
    by_size: Float[np.ndarray, "clusters 4"] = moved[np.argsort(-np.bincount(nearest, minlength=num_clusters))]
    return by_size


@dataclass(frozen=True, slots=True)
class Result:
    """What one proposer reached."""

    recalls: tuple[float, ...]
    """One for each of ``LIMITS``."""
    boxes_per_image: float
    milliseconds: float


def measure(proposer: Proposer, images: Sequence[GroundedImage]) -> Result:
    """Propose for every image, and count which boxes are found."""
    proposer.propose(images[0].file)  # the first time is slower than all others
    found = np.zeros(len(LIMITS))
    counts, seconds = [], []
    for image in images:
        start = time.perf_counter()
        boxes = proposer.propose(image.file)
        seconds.append(time.perf_counter() - start)
        counts.append(len(boxes))
        hits = box_iou(image.boxes, boxes) >= FOUND_AT
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
    parser.add_argument("--limit", type=int, default=None, help="only so many images")
    options = parser.parse_args()
    proposers: list[Proposer] = []
    # The better come first: of two together, the first has the first turn.
    if options.bundle is not None:
        proposers.append(OfBundle(options.bundle))
    if options.efficientdet is not None:
        proposers.append(Detector(options.efficientdet, options.threads))
    if options.shapes is not None:
        proposers.append(CommonShapes(options.shapes))
    if not proposers:
        parser.error("nothing to measure: give --shapes, --efficientdet or --bundle")
    images = list(read_images(options.source))[: options.limit]
    if not images:
        parser.error(f"{options.source} holds no image with boxes that people grounded a caption on")
    print(f"{sum(len(image.boxes) for image in images)} boxes of {len(images)} images\n")
    print("| proposals |", *(f"first {limit} |" for limit in LIMITS), "boxes an image | ms an image |")
    print("| --- |", "---: |" * (len(LIMITS) + 2))
    for proposer in [*proposers, *(Together(*pair) for pair in combinations(proposers, 2))]:
        result = measure(proposer, images)
        recalls = (f"{100 * recall:.1f} % |" for recall in result.recalls)
        print(f"| {proposer.name} |", *recalls, f"{result.boxes_per_image:.1f} | {result.milliseconds:.0f} |")


if __name__ == "__main__":
    main()
