"""Rates of two caption defects: a repeated bigram, and a last word that cannot end a sentence.

    python benchmarks/quality/caption_defects.py evaluation/NAME/predictions.jsonl...

For comparison, the same rates of human captions: the first references of the same samples.
"""

import argparse
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from sct.evaluation.predictions import read_predictions

NOT_LAST = frozenset((
    "a", "an", "the", "of", "in", "on", "with", "and", "or", "is", "are", "to", "while", "his", "her", "its", "their",
    "at", "by", "from", "for", "into",
))  # fmt: skip
"""Words that cannot end a sentence."""


def has_repeated_bigram(words: Sequence[str]) -> bool:
    """Whether a bigram occurs twice."""
    bigrams = list(pairwise(words))
    return len(set(bigrams)) < len(bigrams)


def is_truncated(words: Sequence[str]) -> bool:
    """Whether the last word cannot end a sentence."""
    return bool(words) and words[-1] in NOT_LAST


def print_row(name: str, captions: Sequence[Sequence[str]]) -> None:
    """Print the rates of some captions as a row of a Markdown table."""
    repeated, truncated = (
        100 * sum(map(test, captions)) / len(captions) for test in (has_repeated_bigram, is_truncated)
    )
    length = sum(map(len, captions)) / len(captions)
    print(f"| {name} | {len(captions)} | {length:.1f} | {repeated:.1f} % | {truncated:.1f} % |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predictions", type=Path, nargs="+")
    print("| captions | number | words | repeated bigram | truncated |\n| --- | ---: | ---: | ---: | ---: |")
    for path in parser.parse_args().predictions:
        lines = read_predictions(path)
        print_row(f"{path.parent}", [line.prediction.split() for line in lines])
        print_row("human", [line.references[0].lower().rstrip(" .").split() for line in lines])
