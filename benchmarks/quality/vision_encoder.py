r"""Compare vision encoders on validation images of Flickr8k and COCO: what they name, what they find, time and size.

    python benchmarks/quality/first_captions.py flickr8k-entities/val.jsonl build/first/val.jsonl
    sct prepare build/first build/flickr8k_first --images flickr8k-entities/images
    python benchmarks/quality/vision_encoder.py --flickr8k build/flickr8k --first-captions build/flickr8k_first \
        --coco build/coco --bundle default --vision runs/vision/coco/vision.safetensors --time

The datasets are folders of ``sct prepare``; spaCy is not needed. Two Markdown tables have three rows per encoder: all
images, and the selection and report halves (``sct.data.halves``).

Naming, on human boxes, top-1 and top-5, over the boxes that the encoder has a name for:
- first caption: boxes of the first caption, with its names and those that ``sct prepare`` transfers to them from the
  other captions, among the 553 names of ``flickr8k_names.txt`` (of the first encoder that shipped, which was measured
  so); five captions: boxes and names of all captions; all names: the same, among all names of the encoder;
- COCO: among the 80 classes.
Finding: average precision at IoU 0.5 of COCO's classes (100 detections, scored by objectness times probability of the
class); recall of human boxes at 10, 20 and 30 proposals; word AP: mean average precision of images ranked for a noun by
the largest probability of the whole image and 30 proposals, for the 1,000 most frequent caption nouns of COCO that are
class names, by class head and, of those that are words of the encoder too, by word head.

EfficientDet names a human box by its detections that overlap it with IoU 0.5 or more (efficientdet.py says where its
weights come from).
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from average_precision import LabeledBoxes, detection_average_precision, word_average_precision
from jaxtyping import Float
from measured_encoders import LIMITS, MIN_IOU, DetectorEncoder, Encoder, Observation, TrainedEncoder
from vision_truth import Names, TruthImage, frequent_nouns, read_truth

from sct.captioner.bundle import vision_file
from sct.data.coco_classes import COCO_CLASSES
from sct.data.dataset import Dataset
from sct.data.halves import in_report_half
from sct.regions.boxes import box_iou
from sct.regions.image_source import ImageSource

NUM_NOUNS = 1000
FLICKR8K_NAMES = tuple(Path(__file__).with_name("flickr8k_names.txt").read_text(encoding="utf-8").splitlines())
HALVES: dict[str, Callable[[str], bool]] = {
    "all": lambda _: True,
    "selection": lambda image_id: not in_report_half(image_id),
    "report": in_report_half,
}


@dataclass(slots=True)
class Tally:
    """Sums over images."""

    sums: dict[str, Float[np.ndarray, " counts"]] = field(default_factory=dict)

    def add(self, name: str, counts: Sequence[float]) -> None:
        """Add what one image has; the last count is the total."""
        self.sums[name] = self.sums.get(name, np.zeros(len(counts))) + np.array(counts, float)

    def shares(self) -> dict[str, list[float]]:
        """Shares of the totals, and the totals."""
        return {name: [*(sums[:-1] / max(sums[-1], 1)).tolist(), int(sums[-1])] for name, sums in self.sums.items()}


def count_named(
    scores: Float[np.ndarray, "boxes names"], class_names: Sequence[str], truth: Names, allowed: Sequence[str]
) -> list[int]:
    """Boxes named right first, named right among the first five, and boxes that have an allowed name of the encoder."""
    column = {name: number for number, name in enumerate(class_names)}
    columns = [column[name] for name in allowed if name in column]
    position = {name: number for number, name in enumerate(name for name in allowed if name in column)}
    right, right_of_five, total = 0, 0, 0
    for row, names in zip(scores[:, columns], truth, strict=True):
        accepted = {position[name] for name in names if name in position}
        if accepted:
            order = [number for number in np.argsort(-row, kind="stable")[:5].tolist() if row[number] > 0]
            right += bool(accepted & set(order[:1]))
            right_of_five += bool(accepted & set(order))
            total += 1
    return [right, right_of_five, total]


def count_found(image: TruthImage, proposals: Float[np.ndarray, "proposals 4"]) -> list[int]:
    """Human boxes found by the first 10, 20 and 30 proposals, and human boxes."""
    hits = box_iou(image.boxes.astype(np.float64), proposals.astype(np.float64)) >= MIN_IOU
    return [*(int(hits[:, :limit].any(axis=1).sum()) for limit in LIMITS), len(image.boxes)]


def measure(
    encoder: Encoder, first_captions: "Source", flickr8k: "Source", coco: "Source"
) -> dict[str, dict[str, Any]]:
    """Scores of an encoder by half of the images."""
    tallies = {half: Tally() for half in HALVES}
    observed: list[Observation] = []

    def add(image: TruthImage, name: str, counts: Sequence[float]) -> None:
        for half, contains in HALVES.items():
            if contains(image.image_id):
                tallies[half].add(name, counts)

    for seen in first_captions.observe(encoder):
        names = (seen.box_scores, encoder.class_names, seen.image.names)
        add(seen.image, "flickr8k_first_caption", count_named(*names, FLICKR8K_NAMES))
    for seen in flickr8k.observe(encoder):
        names = (seen.box_scores, encoder.class_names, seen.image.names)
        add(seen.image, "flickr8k_five_captions", count_named(*names, FLICKR8K_NAMES))
        add(seen.image, "flickr8k_all_names", count_named(*names, encoder.class_names))
        add(seen.image, "flickr8k_recall", count_found(seen.image, seen.proposals))
    for seen in coco.observe(encoder):
        add(seen.image, "coco", count_named(seen.box_scores, encoder.class_names, seen.image.names, COCO_CLASSES))
        add(seen.image, "coco_recall", count_found(seen.image, seen.proposals))
        observed.append(seen)
    scores: dict[str, dict[str, Any]] = {half: tally.shares() for half, tally in tallies.items()}
    for half, contains in HALVES.items():
        if some := [seen for seen in observed if contains(seen.image.image_id)]:
            scores[half] |= measure_detections(encoder, some, coco.nouns)
    return scores


def measure_detections(encoder: Encoder, observed: Sequence[Observation], nouns: Sequence[str]) -> dict[str, Any]:
    """Average precision of COCO's classes and of nouns."""
    truth = [
        LabeledBoxes(
            seen.image.boxes, np.array([COCO_CLASSES.index(min(names)) for names in seen.image.names], np.int64)
        )
        for seen in observed
    ]
    precisions = detection_average_precision(truth, [seen.detections for seen in observed], len(COCO_CLASSES))
    named = precisions[[name in encoder.class_names for name in COCO_CLASSES]]
    scores: dict[str, Any] = {"ap50": float(np.nanmean(named)), "ap50_classes": int((~np.isnan(named)).sum())}
    listed = [noun for noun in nouns if noun in encoder.class_names][:NUM_NOUNS]
    for key, names, values in (
        ("word_ap_class_head", encoder.class_names, [seen.image_names for seen in observed]),
        ("word_ap_word_head", encoder.words, [seen.image_words for seen in observed]),
    ):
        table, column = np.stack(values), {name: number for number, name in enumerate(names)}
        by_noun = [
            word_average_precision(table[:, column[noun]], np.array([noun in seen.image.nouns for seen in observed]))
            for noun in listed
            if noun in column
        ]
        precise = [value for value in by_noun if not np.isnan(value)]
        scores[key] = [float(np.mean(precise)), len(precise)] if precise else None
    return scores


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Validation images with human boxes and where their files are; none without a dataset."""

    images: list[TruthImage] = field(default_factory=list)
    source: ImageSource | None = None
    nouns: list[str] = field(default_factory=list)
    """The most frequent first."""

    @classmethod
    def open(
        cls, folder: Path | None, moved: Sequence[Path], limit: int | None, *, names_in_captions: bool
    ) -> "Source":
        """Open a dataset."""
        if folder is None:
            return cls()
        dataset = Dataset.open(folder)
        images = [image for image in read_truth(dataset, names_in_captions=names_in_captions) if len(image.boxes)][
            :limit
        ]
        print(f"{folder}: {len(images)} images, {sum(len(image.boxes) for image in images)} boxes")
        return cls(images, dataset.open_images(moved), frequent_nouns(dataset))

    def observe(self, encoder: Encoder) -> Iterator[Observation]:
        """Describe the images by an encoder."""
        return iter(()) if self.source is None else encoder.observe(self.images, self.source)


def time_images(encoder: Encoder, source: Source, num_images: int = 30) -> float:
    """Median milliseconds of an image, decoding included."""
    seconds = []
    assert source.source is not None
    for image in source.images[: num_images + 2]:
        start = time.perf_counter()
        encoder.run(image.file, source.source)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[2:]) * 1000


def print_tables(results: Sequence[dict[str, Any]]) -> None:
    """Print naming and finding as Markdown."""

    def cell(scores: dict[str, Any], name: str) -> str:
        if name not in scores or not scores[name][-1]:
            return "- |"
        return " / ".join(f"{100 * share:.1f}" for share in scores[name][:-1]) + " |"

    naming = ("flickr8k_first_caption", "flickr8k_five_captions", "flickr8k_all_names", "coco")
    print("\n| encoder | images | first caption | five captions | all names | COCO | names: all, of 553, of 80 |")
    print("|" + " --- |" * 7)
    for result in results:
        for half, scores in result["scores"].items():
            counts = ", ".join(str(count) for count in result["names"])
            print(f"| {result['encoder']} | {half} |", *(cell(scores, name) for name in naming), f"{counts} |")
    finding = ("AP50 (classes)", "Flickr8k recall", "COCO recall", "word AP (nouns)", "by word head", "ms", "MB")
    print("\n| encoder | images |", " | ".join(finding), "|")
    print("|" + " --- |" * 9)
    for result in results:
        for half, scores in result["scores"].items():
            ap = f"{100 * scores['ap50']:.1f} ({scores['ap50_classes']}) |" if "ap50" in scores else "- |"
            words = (scores.get(f"word_ap_{head}") for head in ("class_head", "word_head"))
            milliseconds = f"{result['ms']:.0f}" if result["ms"] else "-"
            print(
                f"| {result['encoder']} | {half} | {ap}",
                *(cell(scores, name) for name in ("flickr8k_recall", "coco_recall")),
                *(f"{100 * word[0]:.1f} ({word[1]}) |" if word else "- |" for word in words),
                f"{milliseconds} | {result['bytes'] / 1e6:.1f} |",
            )


def main() -> None:
    """Measure encoders and print two Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flickr8k", type=Path, help="prepared dataset")
    parser.add_argument("--first-captions", type=Path, help="the same, of which first_captions.py hid the others")
    parser.add_argument("--coco", type=Path, help="prepared dataset")
    parser.add_argument("--images", type=Path, nargs="*", default=[], help="where the images are, if they have moved")
    parser.add_argument("--vision", type=Path, nargs="*", default=[], help="vision encoder files")
    parser.add_argument("--bundle", nargs="*", default=[], help="bundles, such as default")
    parser.add_argument("--efficientdet", type=Path, metavar="WEIGHTS.tflite")
    parser.add_argument("--limit", type=int, help="maximum images of each dataset")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--time", action="store_true", help="also the time of an image, on this device")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="also write all scores")
    options = parser.parse_args()
    sources = [
        Source.open(folder, options.images, options.limit, names_in_captions=folder != options.coco)
        for folder in (options.first_captions, options.flickr8k, options.coco)
    ]
    timed = next((source for source in sources if source.images), None)
    if timed is None:
        parser.error("no image: give --flickr8k or --coco")
    device = torch.device(options.device)
    files = [
        *((name, vision_file(Path(name))) for name in options.bundle),
        *((p.name, vision_file(p)) for p in options.vision),
    ]
    encoders: list[Encoder] = [TrainedEncoder(file, name, device, options.batch_size) for name, file in files]
    if options.efficientdet:
        encoders.append(DetectorEncoder(options.efficientdet, torch.get_num_threads()))
    results = []
    for encoder in encoders:
        known = set(encoder.class_names)
        results.append(
            {
                "encoder": encoder.name,
                "names": [len(known), len(known & set(FLICKR8K_NAMES)), len(known & set(COCO_CLASSES))],
                "scores": measure(encoder, *sources),
                "ms": time_images(encoder, timed) if options.time else None,
                "bytes": encoder.file.stat().st_size,
            }
        )
        if options.out:
            options.out.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print_tables(results)


if __name__ == "__main__":
    main()
