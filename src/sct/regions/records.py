"""Box, region, region set and control, validated on construction."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sct.errors import InputError

NO_CLASS = 65535
"""Class id, in uint16 arrays, of regions and chunks without a class."""


class Box(NamedTuple):
    """Corners in pixels: left, top, right, bottom."""

    x1: float
    y1: float
    x2: float
    y2: float

    @classmethod
    def from_corners(cls, corners: Sequence[float]) -> "Box":
        """Validate four numbers that span an area.

        >>> Box.from_corners([20, 30, 200, 310])
        Box(x1=20.0, y1=30.0, x2=200.0, y2=310.0)
        >>> Box.from_corners([200, 30, 20, 310])
        Traceback (most recent call last):
            ...
        sct.errors.InputError: box (200.0, 30.0, 20.0, 310.0) is inverted or empty: expected x1 < x2 and y1 < y2
        """
        if len(corners) != 4:
            raise InputError(f"box {tuple(corners)} has {len(corners)} numbers: expected x1, y1, x2, y2")
        try:
            box = cls(*(float(value) for value in corners))
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"box {tuple(corners)!r} is not made of numbers: expected x1, y1, x2, y2") from error
        if not all(isfinite(value) for value in box):
            raise InputError(f"box {tuple(box)} is not finite: expected four numbers in pixels")
        # In float32, as boxes are stored: a box must not become empty there.
        x1, y1, x2, y2 = np.array(box, np.float32)
        if x1 >= x2 or y1 >= y2:
            raise InputError(f"box {tuple(box)} is inverted or empty: expected x1 < x2 and y1 < y2")
        return box

    @classmethod
    def from_inclusive_corners(cls, corners: Sequence[float]) -> "Box":
        """Box of corners that include the last pixel: one on a single pixel is one pixel wide.

        >>> Box.from_inclusive_corners([3, 4, 3, 9])
        Box(x1=3.0, y1=4.0, x2=4.0, y2=9.0)
        """
        x1, y1, x2, y2 = corners
        return cls.from_corners((x1, y1, x2 + 1 if x1 == x2 else x2, y2 + 1 if y1 == y2 else y2))

    @property
    def area(self) -> float:
        """Area in square pixels."""
        return (self.x2 - self.x1) * (self.y2 - self.y1)

    def check_inside(self, width: float, height: float, *, overhang: float = 0.0) -> None:
        """Raise if the box exceeds the image by more than ``overhang``."""
        if min(self.x1, self.y1) < -overhang or self.x2 > width + overhang or self.y2 > height + overhang:
            raise InputError(
                f"box {tuple(self)} leaves the image: expected corners within (0, 0, {width:g}, {height:g})"
            )


_LINE_BREAK_OR_SURROGATE = re.compile("[\n\ud800-\udfff]")


def is_one_line(text: str) -> bool:
    """Whether a name is not empty and has no line breaks and no lone surrogates.

    >>> is_one_line("hot dog"), is_one_line(""), is_one_line("hot" + chr(10) + "dog")
    (True, False, False)
    """
    return bool(text) and not _LINE_BREAK_OR_SURROGATE.search(text)


@dataclass(frozen=True, slots=True)
class Region:
    """A box with optional class, score and feature."""

    box: Box
    class_name: str | None = None
    """Class of a detector, or a name given by a person."""
    score: float | None = None
    """Confidence of the detector, from 0 to 1."""
    feature: Float[np.ndarray, " features"] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Check box, class name and score."""
        object.__setattr__(self, "box", Box.from_corners(self.box))
        if self.class_name is not None and not is_one_line(self.class_name):
            raise InputError(f"class {self.class_name!r} of region {tuple(self.box)}: expected a name of one line")
        if self.score is not None and not 0 <= self.score <= 1:
            raise InputError(f"score {self.score} of region {tuple(self.box)} is out of range: expected 0 to 1")


@dataclass(frozen=True, slots=True)
class RegionSet:
    """One or more regions that one noun chunk describes."""

    regions: tuple[Region, ...]

    def __post_init__(self) -> None:
        """Check that it is not empty."""
        if not self.regions:
            raise InputError("a region set is empty: expected at least one region")


@dataclass(frozen=True, slots=True)
class Control:
    """Region sets that a caption describes: a sequence, or a set that the sorter orders."""

    region_sets: tuple[RegionSet, ...]
    ordered: bool = True

    def __post_init__(self) -> None:
        """Check that it is not empty."""
        if not self.region_sets:
            raise InputError("the control is empty: expected at least one region set")

    @classmethod
    def from_boxes(cls, boxes: Iterable[Sequence[float]], *, ordered: bool = True) -> "Control":
        """Control with one region set per box.

        >>> len(Control.from_boxes([(20, 30, 200, 310), (180, 90, 330, 250)]).region_sets)
        2
        """
        return cls(tuple(RegionSet((Region(Box.from_corners(box)),)) for box in boxes), ordered=ordered)

    def check_inside(self, width: float, height: float) -> None:
        """Raise if a region exceeds the image."""
        for region_set in self.region_sets:
            for region in region_set.regions:
                region.box.check_inside(width, height)
