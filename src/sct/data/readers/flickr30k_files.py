"""A file of Flickr30k Entities' ``Annotations``: the boxes that people drew for each chain of mentions.

A line of Flickr30k Entities' ``TokenSequences``: words, and phrases in brackets that name their chain of mentions.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from sct.errors import InputError


class PixelBox(NamedTuple):
    """First and last pixel of a box, counted from 1: both belong to it."""

    x1: int
    y1: int
    x2: int
    y2: int


@dataclass(frozen=True, slots=True)
class EntityBoxes:
    """What people marked in one image."""

    width: int
    height: int
    boxes: Mapping[str, tuple[PixelBox, ...]]
    """By chain, chains and boxes in the order of the file; a chain without a box is not here."""
    scene: frozenset[str]
    """Chains that name the whole scene."""
    nobox: frozenset[str]
    """Chains that name something nobody drew a box for."""


def read_annotations(path: Path) -> EntityBoxes:
    """Read an image's boxes. One object may belong to several chains, and a chain may have several objects."""
    try:
        root = ElementTree.fromstring(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError("no such file: expected the boxes of the sentences of the same name") from error
    except ElementTree.ParseError as error:
        raise InputError(f"broken XML on line {error.position[0]} ({error}): fetch the file again") from error
    boxes: dict[str, list[PixelBox]] = {}
    scene: set[str] = set()
    nobox: set[str] = set()
    for number, element in enumerate(root.findall("object"), start=1):
        what = f"object {number}"
        chains = [(name.text or "").strip() for name in element.findall("name")]
        if not chains or not all(chains):
            raise InputError(f"{what} has no <name>: expected the number of its chain")
        corners = element.find("bndbox")
        if corners is not None:
            box = _box_of(corners, what)
            for chain in chains:
                boxes.setdefault(chain, []).append(box)
            continue
        is_scene, is_nobox = _flag(element, "scene"), _flag(element, "nobox")
        if not is_scene and not is_nobox:
            raise InputError(f"{what} has neither <bndbox> nor <scene> nor <nobox>")
        scene.update(chains if is_scene else ())
        nobox.update(chains if is_nobox else ())
    return EntityBoxes(
        width=_size_of(root, "width"),
        height=_size_of(root, "height"),
        boxes={chain: tuple(drawn) for chain, drawn in boxes.items()},
        scene=frozenset(scene),
        nobox=frozenset(nobox),
    )


def _box_of(corners: ElementTree.Element, what: str) -> PixelBox:
    box = PixelBox(*(_number_of(corners, name, what) for name in ("xmin", "ymin", "xmax", "ymax")))
    if box.x1 > box.x2 or box.y1 > box.y2:
        raise InputError(f"{what}: box {tuple(box)} is inverted: expected xmin <= xmax and ymin <= ymax")
    return box


def _size_of(root: ElementTree.Element, name: str) -> int:
    size = root.find("size")
    if size is None:
        raise InputError("no <size>: expected the width and height of the image")
    number = _number_of(size, name, "<size>")
    if number <= 0:
        raise InputError(f"<size>: {name} is {number}: expected pixels")
    return number


def _number_of(parent: ElementTree.Element, name: str, what: str) -> int:
    text = parent.findtext(name)
    try:
        return int(text or "")
    except ValueError as error:
        raise InputError(f"{what}: <{name}> is {text!r}: expected a whole number") from error


def _flag(element: ElementTree.Element, name: str) -> bool:
    return (element.findtext(name) or "").strip() == "1"


_PHRASE = re.compile(r"/EN#(?P<chain>\d+)(?P<types>(?:/[^/\s]+)+)(?:\s+(?P<words>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a sentence: a phrase, or what stands between two."""

    text: str
    chain: str | None = None
    """The number shared by all phrases of the image that mean the same thing; "0" for what cannot be seen."""


def parse_sentence(line: str) -> list[Segment]:
    """Take the brackets off.

    >>> parse_sentence("[/EN#12/people A man] in [/EN#15/clothing/other a hat] .")
    [Segment(text='A man', chain='12'), Segment(text=' in ', chain=None), Segment(text='a hat', chain='15'), \
Segment(text=' .', chain=None)]
    >>> parse_sentence("[/EN#12/people A man in a hat .")
    Traceback (most recent call last):
        ...
    sct.errors.InputError: the bracket opened at column 1 is never closed
    """
    segments = []
    position = 0
    while position < len(line):
        opening = line.find("[", position)
        end = len(line) if opening < 0 else opening
        if (stray := line.find("]", position, end)) >= 0:
            raise InputError(f"the bracket closed at column {stray + 1} was never opened")
        if end > position:
            segments.append(Segment(line[position:end]))
        if opening < 0:
            break
        closing = line.find("]", opening)
        if closing < 0:
            raise InputError(f"the bracket opened at column {opening + 1} is never closed")
        inside = line[opening + 1 : closing]
        if "[" in inside:
            raise InputError(f"the bracket opened at column {opening + 1} holds another one")
        phrase = _PHRASE.fullmatch(inside)
        if phrase is None:
            raise InputError(
                f"the bracket at column {opening + 1} begins {inside[:20]!r}: expected /EN#number/type words"
            )
        segments.append(Segment(phrase["words"] or "", phrase["chain"]))
        position = closing + 1
    return segments
