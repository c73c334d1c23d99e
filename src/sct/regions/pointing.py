"""From what a user points at to a control: boxes, regions, and several of them at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Shaped

from sct.errors import InputError
from sct.regions.records import Box, Control, Region, RegionSet

Pointed = (
    Region | RegionSet | Sequence[float] | Sequence[Region] | Sequence[Sequence[float]] | Shaped[np.ndarray, "..."]
)
"""What one noun chunk is to talk about: a box, a region, or several of them."""
Pointing = Control | Sequence[Pointed] | Shaped[np.ndarray, "..."]
"""What a caption is to talk about."""

_WANTED = "wanted a list of boxes, [(x1, y1, x2, y2), ...], also for one box"


def control_of(regions: Pointing, *, ordered: bool = True) -> Control:
    """Make a control with a region set for each item; a control that comes is a set if either says so.

    >>> pointed = control_of([(20, 30, 200, 310), [(0, 0, 9, 9), (9, 0, 18, 9)]])
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
    raise InputError(f"{item!r} is no region: {_WANTED}")
