"""A file of Flickr30k Entities' ``Annotations``: the boxes that people drew for each chain of mentions."""

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
    """What people marked in one picture."""

    width: int
    height: int
    boxes: Mapping[str, tuple[PixelBox, ...]]
    """By chain, chains and boxes in the order of the file; a chain without a box is not here."""
    scene: frozenset[str]
    """Chains that name the whole scene."""
    nobox: frozenset[str]
    """Chains that name something nobody drew a box for."""


def read_annotations(path: Path) -> EntityBoxes:
    """Read a picture's boxes. One object may belong to several chains, and a chain may have several objects."""
    try:
        root = ElementTree.fromstring(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError("no such file: wanted the boxes of the sentences of the same name") from error
    except ElementTree.ParseError as error:
        raise InputError(f"broken XML on line {error.position[0]} ({error}): fetch the file again") from error
    boxes: dict[str, list[PixelBox]] = {}
    scene: set[str] = set()
    nobox: set[str] = set()
    for number, element in enumerate(root.findall("object"), start=1):
        what = f"object {number}"
        chains = [(name.text or "").strip() for name in element.findall("name")]
        if not chains or not all(chains):
            raise InputError(f"{what} has no <name>: wanted the number of its chain")
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
        raise InputError(f"{what}: box {tuple(box)} is inverted: wanted xmin <= xmax and ymin <= ymax")
    return box


def _size_of(root: ElementTree.Element, name: str) -> int:
    size = root.find("size")
    if size is None:
        raise InputError("no <size>: wanted the width and height of the picture")
    number = _number_of(size, name, "<size>")
    if number <= 0:
        raise InputError(f"<size>: {name} is {number}: wanted pixels")
    return number


def _number_of(parent: ElementTree.Element, name: str, what: str) -> int:
    text = parent.findtext(name)
    try:
        return int(text or "")
    except ValueError as error:
        raise InputError(f"{what}: <{name}> is {text!r}: wanted a whole number") from error


def _flag(element: ElementTree.Element, name: str) -> bool:
    return (element.findtext(name) or "").strip() == "1"
