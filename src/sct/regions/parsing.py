"""From what a user points at to a control: boxes, regions, and several of them at once.

Regions to talk about, for one or many images, in a JSON file.

    {"photo.jpg": [[20, 30, 200, 310], [[0, 0, 9, 9], [9, 0, 18, 9]]]}

Each item is a box, or a list of boxes that one noun chunk is to talk about. For a single image the list will do.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from sct.errors import InputError
from sct.regions.records import Box, Control, Region, RegionSet

Pointed = (
    Region | RegionSet | Sequence[float] | Sequence[Region] | Sequence[Sequence[float]] | Shaped[np.ndarray, "..."]
)
"""What one noun chunk is to talk about: a box, a region, or several of them."""
RegionsLike = Control | Sequence[Pointed] | Shaped[np.ndarray, "..."]
"""What a caption is to talk about."""

_EXPECTED = "expected a list of boxes, [(x1, y1, x2, y2), ...], also for one box"


def as_control(regions: RegionsLike, *, ordered: bool = True) -> Control:
    """Make a control with a region set for each item; a control that comes is a set if either says so.

    >>> pointed = as_control([(20, 30, 200, 310), [(0, 0, 9, 9), (9, 0, 18, 9)]])
    >>> [len(region_set.regions) for region_set in pointed.region_sets]
    [1, 2]
    """
    if isinstance(regions, Control):
        return Control(regions.region_sets, ordered=regions.ordered and ordered)
    return Control(tuple(_region_set(item) for item in _items(regions)), ordered=ordered)


def _region_set(item: object) -> RegionSet:
    if isinstance(item, RegionSet):
        return item
    if isinstance(item, Region):
        return RegionSet((item,))
    members = _items(item)
    if members and all(isinstance(member, Region | Sequence | np.ndarray) for member in members):
        return RegionSet(tuple(_region(member) for member in members))
    return RegionSet((_region(members),))


def _region(item: object) -> Region:
    return item if isinstance(item, Region) else Region(Box.checked(_items(item)))


def _items(item: object) -> list[Any]:
    if isinstance(item, np.ndarray):
        item = item.tolist()
    if isinstance(item, Sequence) and not isinstance(item, str | bytes):
        return list(item)
    raise InputError(f"{item!r} is no region: {_EXPECTED}")


_EXPECTED_JSON = 'expected {"photo.jpg": [[x1, y1, x2, y2], ...]}, or the list alone for a single image'


def read_controls(path: Path, files: Sequence[Path], *, ordered: bool = True) -> list[Control | None]:
    """The control of each image; None for one that the file does not name.

    An image is named as on the command line, or by its file name alone. A name that fits no image is refused.
    """
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: {_EXPECTED_JSON}") from None
    except (ValueError, RecursionError, OSError) as error:  # the last for a folder
        raise InputError(f"{path} cannot be read as JSON ({error}): {_EXPECTED_JSON}") from error
    if isinstance(content, list):
        if len(files) != 1:
            raise InputError(f"{path} holds a list without a name, but there are {len(files)} images: {_EXPECTED_JSON}")
        return [_control(content, path, ordered=ordered)]
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a {type(content).__name__}: {_EXPECTED_JSON}")
    controls = {name: _control(regions, f"{path}, {name}", ordered=ordered) for name, regions in content.items()}
    found = [controls.get(str(file), controls.get(file.name)) for file in files]
    known = {str(file) for file in files} | {file.name for file in files}
    if unknown := [name for name in controls if name not in known]:
        raise InputError(f"{path} names {unknown[0]!r}, which is none of the {len(files)} images: expected their names")
    return found


def _control(content: Any, place: object, *, ordered: bool) -> Control:
    if not isinstance(content, list) or not all(_is_region_set(item) for item in content):
        raise InputError(f"{place}: {json.dumps(content)[:60]} is no list of regions: {_EXPECTED_JSON}")
    try:
        return as_control(content, ordered=ordered)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


def _is_region_set(item: object) -> bool:
    return _is_box(item) or (isinstance(item, list) and bool(item) and all(_is_box(each) for each in item))


def _is_box(item: object) -> bool:
    return isinstance(item, list) and bool(item) and all(type(side) in (int, float) for side in item)
