"""Precision and coverage of auto-grounding, measured on human-grounded captions.

    sct detect IMAGES --limit 20 --vision VISION.safetensors --out DETECTIONS.safetensors
    python benchmarks/quality/auto_grounding.py modes VAL.jsonl --detections DETECTIONS.safetensors
    python benchmarks/quality/auto_grounding.py modes ... --fit src/sct/data/grounding/learned.toml
    python benchmarks/quality/auto_grounding.py classes DETECTIONS.jsonl    # from benchmarks/quality/efficientdet.py
    python benchmarks/quality/auto_grounding.py transfer DATA.jsonl --sample 100 --seed 1

``modes``: the modes of ``sct prepare --grounding`` on all captions of a file whose captions are all human-grounded
(``grounding_modes.py``). Precision is the mean share of a mention's regions that overlap a human box of the mention by
IoU 0.5; "any right" counts a mention as right if one of its regions does; coverage is the share of mentions with a
region. ``--fit`` estimates the learned mode's parameters on the selection half. ``--other`` adds rows for another
detector: the same file with its detections, from ``efficientdet.py``.

``classes``: the first caption of each image is grounded on detections by the class index and compared with its human
boxes. An associated mention is correct if one of its regions overlaps a human box with IoU 0.5 or more; coverage is the
share of human mentions with a region set.

``transfer``: the other captions are grounded from the first. They have no human grounding, so there are three
substitutes: the round trip (caption 1 -> 2 -> 1) must return the human boxes; detections of the chunk's class, if the
file has detections, must overlap the transferred boxes; and ``--sample`` prints matches for manual inspection.
"""

import argparse
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from grounding_modes import mode_table

from sct.data.coco_classes import CLASS_OF_NOUN, COCO_CLASSES, COCO_NAMES
from sct.data.grounding.class_index import ClassIndex
from sct.data.grounding.grounder import parse_mentions
from sct.data.grounding.transfer import Anchor, Transfer
from sct.data.readers.errors import ReadErrors
from sct.data.readers.grounded_jsonl import read_grounded_jsonl
from sct.data.records import AnnotatedImage
from sct.language.noun_chunks import NounChunk, NounChunker
from sct.language.word_vectors import WordVectors, load_vectors
from sct.regions.boxes import box_iou
from sct.regions.detections import Detections


@dataclass(frozen=True, slots=True)
class ParsedImage:
    """An image with the noun chunks of its captions and the anchors of its first one."""

    image: AnnotatedImage
    noun_chunks: list[list[NounChunk]]
    anchors: list[Anchor]

    def overlap(self, first: Sequence[int], second: Sequence[int]) -> bool:
        """Whether any two regions overlap with IoU 0.5 or more."""
        boxes = [np.array([self.image.regions[i].box for i in group], dtype=np.float64) for group in (first, second)]
        return bool((box_iou(*boxes) >= 0.5).any())

    def detections(self) -> dict[str, list[int]]:
        """Detected regions by class."""
        found: dict[str, list[int]] = {}
        for index, region in enumerate(self.image.regions):
            if region.class_name is not None:
                found.setdefault(region.class_name, []).append(index)
        return found


def read(path: Path, limit: int | None) -> list[AnnotatedImage]:
    """Read the first images of a file."""
    return list(read_grounded_jsonl({"train": path}, ReadErrors()))[:limit]


def parse(path: Path, limit: int | None) -> list[ParsedImage]:
    """Read and parse the images whose first caption is grounded."""
    images = read(path, limit)
    found = NounChunker().chunks(caption.text for image in images for caption in image.captions)
    parsed = []
    for image in images:
        noun_chunks = [next(found) for _ in image.captions]
        first = image.captions[0]
        nouns = parse_mentions(first, noun_chunks[0])
        parsed.append(
            ParsedImage(
                image, noun_chunks, [Anchor(n, c.regions) for n, c in zip(nouns, first.chunks or (), strict=True)]
            )
        )
    return parsed


def class_table(parsed: Sequence[ParsedImage], vectors: WordVectors) -> Iterator[str]:
    """Precision and coverage of the class index, with class names as in the paper and with hand-written names."""
    plain: dict[str, tuple[str, ...]] = dict.fromkeys(COCO_CLASSES, ())
    yield f"{'index':<44} {'coverage':>8} {'precision':>9} {'associated':>10}"
    for label, names, final in (("class names", plain, False), ("hand-written names", COCO_NAMES, True)):
        for threshold in (-1.0, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 1.0):
            index = ClassIndex(names, vectors, min_similarity=threshold, prefer_exact=final)
            total = associated = correct = 0
            for item in parsed:
                present = item.detections()
                for anchor in item.anchors:
                    total += 1
                    class_name = index.associate(anchor.chunk, present)
                    if class_name is not None:
                        associated += 1
                        correct += item.overlap(present[class_name], anchor.regions)
            what = f"{label}, top 5" + ("" if threshold < 0 else f", similarity >= {threshold}")
            yield f"{what:<44} {associated / total:>8.3f} {correct / associated:>9.3f} {associated:>10}"


def transfer_table(parsed: Sequence[ParsedImage], vectors: WordVectors) -> Iterator[str]:
    """Coverage, round-trip accuracy and agreement with detections, by similarity threshold."""
    yield f"{'similarity':>10} {'coverage':>8} {'round trip':>10} {'agrees with detector':>20} {'(chunks)':>8}"
    for threshold in (1.01, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6):
        transfer = Transfer(vectors, CLASS_OF_NOUN, threshold)
        counts: Counter[str] = Counter()
        for item in parsed:
            present = item.detections()
            for noun_chunks in item.noun_chunks[1:]:
                transferred = transfer.match(noun_chunks, item.anchors)
                counts["chunks"] += len(noun_chunks)
                anchors = [
                    Anchor(chunk, regions) for chunk, regions in zip(noun_chunks, transferred, strict=True) if regions
                ]
                counts["transferred"] += len(anchors)
                returned = transfer.match([anchor.chunk for anchor in item.anchors], anchors)
                for anchor, regions in zip(item.anchors, returned, strict=True):
                    counts["returned"] += bool(regions)
                    counts["returned correctly"] += bool(regions) and set(regions) == set(anchor.regions)
                for anchor in anchors:
                    detected = present.get(CLASS_OF_NOUN.get(anchor.chunk.lemma, ""))
                    if detected:
                        counts["with detection"] += 1
                        counts["agrees"] += item.overlap(detected, anchor.regions)
        yield (
            f"{threshold:>10} {counts['transferred'] / counts['chunks']:>8.3f} "
            f"{counts['returned correctly'] / counts['returned']:>10.3f} "
            f"{counts['agrees'] / max(counts['with detection'], 1):>20.3f} {counts['with detection']:>8}"
        )


def transfer_sample(parsed: Sequence[ParsedImage], vectors: WordVectors, size: int, seed: int) -> Iterator[str]:
    """Randomly sampled matches for manual inspection."""
    transfer = Transfer(vectors, CLASS_OF_NOUN)
    lines = []
    for item in parsed:
        words = item.image.captions[0].text
        for caption, noun_chunks in zip(item.image.captions[1:], item.noun_chunks[1:], strict=True):
            for chunk, regions in zip(noun_chunks, transfer.match(noun_chunks, item.anchors), strict=True):
                if regions:
                    sources = [
                        words[anchor.chunk.start : anchor.chunk.end]
                        for anchor in item.anchors
                        if set(anchor.regions) <= set(regions)
                    ]
                    before, phrase, after = (
                        caption.text[: chunk.start],
                        caption.text[chunk.start : chunk.end],
                        caption.text[chunk.end :],
                    )
                    lines.append(f"{before}[{phrase}]{after}  <-  {sources}  ||  {words}")
    yield from random.Random(seed).sample(lines, min(size, len(lines)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["modes", "classes", "transfer"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--detections", type=Path, help="modes: file of sct detect")
    parser.add_argument("--other", type=Path, help="modes: grounded JSONL with detections of another detector")
    parser.add_argument("--fit", type=Path, metavar="OUT.toml", help="modes: fit the learned mode and write it")
    parser.add_argument("--limit", type=int, default=None, help="maximum images")
    parser.add_argument("--sample", type=int, default=0, help="number of transferred groundings to print")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.what == "modes":
        if options.detections is None:
            parser.error("modes needs --detections")
        other = None if options.other is None else read(options.other, options.limit)
        for line in mode_table(
            read(options.data, options.limit), Detections.open(options.detections), other, options.fit
        ):
            print(line)
        return
    parsed, vectors = parse(options.data, options.limit), load_vectors()
    print(f"{options.data.name}: {len(parsed)} images, {vectors.name}")
    if options.sample:
        lines = transfer_sample(parsed, vectors, options.sample, options.seed)
    else:
        lines = class_table(parsed, vectors) if options.what == "classes" else transfer_table(parsed, vectors)
    for line in lines:
        print(line)


if __name__ == "__main__":
    main()
