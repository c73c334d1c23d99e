"""How often captions say things again or break off: theirs and people's.

    python benchmarks/latents.py evaluation/NAME/predictions.jsonl...

Counts captions in which two words follow each other that did so before, and captions whose last word cannot end a
sentence. People's captions are the first references of the same samples.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

OPEN = frozenset((
    "a", "an", "the", "of", "in", "on", "with", "and", "or", "is", "are", "to", "while", "his", "her", "its", "their",
    "at", "by", "from", "for", "into",
))  # fmt: skip
"""Words that something must follow."""


def says_again(words: Sequence[str]) -> bool:
    """Whether two words follow each other twice."""
    pairs = list(pairwise(words))
    return len(set(pairs)) < len(pairs)


def breaks_off(words: Sequence[str]) -> bool:
    """Whether something must follow the last word."""
    return bool(words) and words[-1] in OPEN


def tell(name: str, captions: Sequence[Sequence[str]]) -> None:
    """Print one row."""
    again, off = (100 * sum(map(test, captions)) / len(captions) for test in (says_again, breaks_off))
    length = sum(map(len, captions)) / len(captions)
    print(f"| {name} | {len(captions)} | {length:.1f} | {again:.1f} % | {off:.1f} % |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("predictions", type=Path, nargs="+")
    print("| captions | how many | words | say two words again | break off |\n| --- | ---: | ---: | ---: | ---: |")
    for path in parser.parse_args().predictions:
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        tell(f"{path.parent}", [row["prediction"].split() for row in rows])
        tell("people", [row["references"][0].lower().rstrip(" .").split() for row in rows])
