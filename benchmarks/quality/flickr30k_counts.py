"""Ways of counting the captions and noun chunks of Flickr30k Entities, beside the figures of the paper's Table 1.

    python benchmarks/quality/flickr30k_counts.py flickr30k-entities/ SPLITS/

``SPLITS`` holds Karpathy's splits as lists of images, ``train.txt`` and ``val.txt`` (Multi30k publishes lists of the
same sizes). Listed images whose annotations are missing are extrapolated from the others: ± is the standard deviation
of that sum, sigma the distance of the published figure in such units.
"""

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

from sct.data.readers.errors import ReadErrors
from sct.data.readers.flickr30k_entities import Segment, parse_sentence, read_annotations
from sct.data.readers.split_lists import read_split_lists
from sct.language.reference_tokenizer import drop_punctuation

Count = Callable[[Sequence[Segment], frozenset[str]], int]
"""What a caption counts, given the coreference chains that have a box."""
PUBLISHED = {"train": {"captions": 144_256, "chunks": 416_018}, "val": {"captions": 5_053, "chunks": 14_626}}
FIRST_WORDS = 18


def count_runs(segments: Sequence[Segment], boxed: frozenset[str], limit: int | None = None) -> int:
    """Runs of words of one chain with a box."""
    chains = [
        segment.chain if segment.chain in boxed else None
        for segment in segments
        for _ in drop_punctuation(segment.text.split(" "))
    ]
    return sum(chain is not None for chain, _ in groupby(chains[:limit]))


def phrases(segments: Sequence[Segment]) -> list[str]:
    """Chains of the phrases of a caption."""
    return [segment.chain for segment in segments if segment.chain is not None]


COUNTS: dict[str, dict[str, Count]] = {
    "captions": {
        "captions with a phrase that has a box": lambda segments, boxed: not boxed.isdisjoint(phrases(segments)),
        "captions with a phrase": lambda segments, _: bool(phrases(segments)),
        "captions whose phrases all have a box": lambda segments, boxed: (
            bool(phrases(segments)) and boxed.issuperset(phrases(segments))
        ),
    },
    "chunks": {
        "phrases with a box (`sct prepare`)": lambda segments, boxed: sum(c in boxed for c in phrases(segments)),
        "runs of words with a box, without punctuation (`--mode reference`)": count_runs,
        "entities with a box, each once per caption": lambda segments, boxed: len(
            boxed.intersection(phrases(segments))
        ),
        f"runs within the first {FIRST_WORDS} words": lambda segments, boxed: count_runs(segments, boxed, FIRST_WORDS),
        "all phrases": lambda segments, _: len(phrases(segments)),
    },
}


def main() -> None:
    """Print one Markdown table per split."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, help="unpacked Flickr30k Entities")
    parser.add_argument("splits", type=Path, help="folder of train.txt and val.txt")
    options = parser.parse_args()
    listed = read_split_lists(options.splits, errors=ReadErrors())
    for split, published in PUBLISHED.items():
        names = [name for name, image in listed.items() if image.split == split]
        found = [name for name in names if (options.root / "Annotations" / f"{name}.xml").exists()]
        num_missing = len(names) - len(found)
        images = []
        for name in found:
            boxed = frozenset(read_annotations(options.root / "Annotations" / f"{name}.xml").boxes)
            text = (options.root / "Sentences" / f"{name}.txt").read_text(encoding="utf-8")
            images.append((boxed, [parse_sentence(line.strip()) for line in text.splitlines() if line.strip()]))
        print(f"\n{split}: {len(found):,} of {len(names):,} images\n")
        print(f"| counted | {split} | sigma |\n| --- | ---: | ---: |")
        for what, counts in COUNTS.items():
            print(f"| **published {what}** | **{published[what]:,}** | |")
            for rule, count in counts.items():
                per_image = [sum(count(segments, boxed) for segments in captions) for boxed, captions in images]
                total = sum(per_image) + num_missing * statistics.mean(per_image)
                deviation = statistics.stdev(per_image) * math.sqrt(num_missing)
                sigma = (published[what] - total) / deviation if deviation else math.nan
                print(f"| {rule} | {total:,.0f} ± {deviation:,.0f} | {sigma:+.1f} |")


if __name__ == "__main__":
    main()
