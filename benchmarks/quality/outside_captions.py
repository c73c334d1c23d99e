"""Captions of ten photographs outside Flickr8k and COCO, with hand-drawn boxes in normal and in reversed order.

    python benchmarks/quality/outside_captions.py [--search "whole chunks" --search "cover, min_fit 0.7"]

Prints a Markdown table; [1 a man] is the chunk of the first box of the normal order, and a chunk that does not name its
box is struck out. A chunk names its box if its noun, in any inflection, is one of those that a person who looked at the
photograph accepts for the box. Sources and licences of the photographs: SOURCES.md beside each.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from control_fidelity import BASE, SEARCHES

import sct
from sct.captioner.bundle import load_bundle
from sct.language.inflection import base_forms
from sct.language.noun_table import NounTable
from sct.metrics.control_fidelity import chunk_noun

ROOT = Path(__file__).parents[2]


class DrawnBox(NamedTuple):
    """A box and the nouns that name what is in it, the most exact one first."""

    box: tuple[float, float, float, float]
    nouns: str


WATER = "water river lake ocean sea pond"
ROCK = "rock stone boulder cliff"
TREES = "tree woods forest wood bush leaf branch"
WOMAN = "woman lady person adult"
PHOTOGRAPHS: dict[str, tuple[DrawnBox, ...]] = {
    "examples/gallery/admiral.jpg": (
        DrawnBox((20, 20, 427, 500), f"{WOMAN} officer"),
        DrawnBox((125, 15, 312, 135), "hat cap headgear"),
        DrawnBox((0, 0, 145, 300), "flag banner"),
    ),
    "examples/gallery/dogs.jpg": (
        DrawnBox((98, 112, 172, 202), "dog puppy animal"),
        DrawnBox((0, 285, 180, 500), "wall fence wood board plank porch railing building house"),
    ),
    "examples/photos/hikers.jpg": (
        DrawnBox((60, 257, 210, 347), "hiker people person group man"),
        DrawnBox((0, 0, 640, 427), "dune sand hill desert mountain slope"),
    ),
    "examples/photos/otters.jpg": (
        DrawnBox((197, 100, 600, 290), "otter animal"),
        DrawnBox((0, 0, 640, 255), WATER),
        DrawnBox((0, 230, 560, 360), f"{ROCK} bank shore sand ground"),
    ),
    "examples/photos/photographer.jpg": (
        DrawnBox((0, 63, 332, 512), "man photographer person guy"),
        DrawnBox((258, 138, 326, 192), "camera"),
        DrawnBox((150, 235, 512, 512), "lawn grass field park"),
    ),
    "examples/tiny/images/astronaut.jpg": (
        DrawnBox((18, 8, 290, 400), f"{WOMAN} astronaut"),
        DrawnBox((217, 268, 400, 400), "helmet"),
        DrawnBox((0, 0, 90, 330), "flag banner"),
    ),
    "examples/tiny/images/cat.jpg": (
        DrawnBox((0, 0, 332, 266), "cat kitten animal face"),
        DrawnBox((206, 198, 260, 236), "nose"),
    ),
    "examples/tiny/images/coffee.jpg": (
        DrawnBox((115, 10, 272, 202), "cup mug coffee espresso drink"),
        DrawnBox((217, 44, 283, 217), "spoon utensil silverware"),
        DrawnBox((0, 0, 400, 267), "table surface wood"),
    ),
    "examples/gallery/creek.jpg": (
        DrawnBox((130, 110, 290, 333), f"{WATER} creek stream waterfall"),
        DrawnBox((250, 130, 430, 310), ROCK),
        DrawnBox((0, 0, 500, 90), TREES),
    ),
    "examples/gallery/pagoda.jpg": (
        DrawnBox((49, 21, 285, 300), "pagoda building temple tower structure"),
        DrawnBox((257, 160, 430, 250), WATER),
        DrawnBox((0, 210, 500, 334), TREES),
    ),
}
"""Boxes of each photograph in normal order: what a sentence would begin with, then the things around it."""


def describe(
    caption: sct.GroundedCaption, boxes: Sequence[DrawnBox], numbers: Sequence[int], nouns: NounTable
) -> tuple[str, Counter[str]]:
    """Caption with its chunks marked, and the number of right chunks, chunks and boxes with a chunk."""
    words = [word.text for word in caption.words]
    counts = Counter(chunks=len(caption.chunks), boxes=len(boxes))
    counts["described"] = len({chunk.region_set for chunk in caption.chunks})
    for chunk in caption.chunks:
        box = boxes[chunk.region_set]
        noun = chunk_noun(chunk.text.split(), nouns)
        is_right = noun is not None and not set(base_forms(noun)).isdisjoint(box.nouns.split())
        counts["right"] += is_right
        first, end = chunk.words
        mark = "" if is_right else "~~"
        words[first] = f"[{numbers[chunk.region_set]} {mark}{words[first]}"
        words[end - 1] += f"{mark}]"
    return " ".join(words), counts


def main() -> None:
    """Print one table for each search, then the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path, nargs="?", default=Path("default"))
    parser.add_argument("--search", action="append", choices=tuple(SEARCHES), help=f"repeatable; default: {BASE}")
    args = parser.parse_args()
    captioner, nouns = sct.load(args.bundle), load_bundle(args.bundle).nouns
    assert nouns is not None
    totals: dict[tuple[str, str], Counter[str]] = {}
    for search in args.search or [BASE]:
        print(f"\n{search}\n\n| photograph, boxes | normal order | reversed order |\n| --- | --- | --- |")
        for file, normal in PHOTOGRAPHS.items():
            cells = []
            for order, step in (("normal", 1), ("reversed", -1)):
                boxes, numbers = normal[::step], range(1, len(normal) + 1)[::step]
                caption = captioner.caption(ROOT / file, [box.box for box in boxes], options=SEARCHES[search])
                text, counts = describe(caption, boxes, numbers, nouns)
                totals.setdefault((search, order), Counter()).update(counts)
                cells.append(text)
            names = ", ".join(f"{number} {box.nouns.split()[0]}" for number, box in enumerate(normal, 1))
            print(f"| {Path(file).stem}: {names} | {' | '.join(cells)} |", flush=True)
    print("\n| search | order | chunks that name their box | boxes with a chunk |\n| --- | --- | --- | --- |")
    for (search, order), counts in totals.items():
        right = f"{counts['right']} of {counts['chunks']}"
        print(f"| {search} | {order} | {right} | {counts['described']} of {counts['boxes']} |")


if __name__ == "__main__":
    main()
