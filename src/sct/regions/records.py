"""Region, region set and control: what a user points at, checked where it is made."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sct.errors import InputError


class Box(NamedTuple):
    """Two corners in pixels: left, top, right, bottom."""

    x1: float
    y1: float
    x2: float
    y2: float

    @classmethod
    def checked(cls, corners: Sequence[float]) -> "Box":
        """Make a box of four numbers that span an area.

        >>> Box.checked([20, 30, 200, 310])
        Box(x1=20.0, y1=30.0, x2=200.0, y2=310.0)
        >>> Box.checked([200, 30, 20, 310])
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
        # Compared as they will be stored, in single precision: a box must not vanish on its way.
        x1, y1, x2, y2 = np.array(box, np.float32)
        if x1 >= x2 or y1 >= y2:
            raise InputError(f"box {tuple(box)} is inverted or empty: expected x1 < x2 and y1 < y2")
        return box

    @classmethod
    def of_pixels(cls, corners: Sequence[float]) -> "Box":
        """Make a box of corners that include their last pixel, so that one on a single pixel is one pixel wide.

        >>> Box.of_pixels([3, 4, 3, 9])
        Box(x1=3.0, y1=4.0, x2=4.0, y2=9.0)
        """
        x1, y1, x2, y2 = corners
        return cls.checked((x1, y1, x2 + 1 if x1 == x2 else x2, y2 + 1 if y1 == y2 else y2))

    @property
    def area(self) -> float:
        """Width times height."""
        return (self.x2 - self.x1) * (self.y2 - self.y1)

    def check_inside(self, width: float, height: float, *, overhang: float = 0.0) -> None:
        """Refuse a box that leaves the image by more than ``overhang``; touching its edge is fine."""
        if min(self.x1, self.y1) < -overhang or self.x2 > width + overhang or self.y2 > height + overhang:
            raise InputError(
                f"box {tuple(self)} leaves the image: expected corners within (0, 0, {width:g}, {height:g})"
            )


_LINE_BREAK_OR_HALF_CHARACTER = re.compile("[\n\ud800-\udfff]")


def is_one_line(text: str) -> bool:
    """Whether a name is some text without line breaks and half characters (lone surrogates).

    >>> is_one_line("hot dog"), is_one_line(""), is_one_line("hot" + chr(10) + "dog")
    (True, False, False)
    """
    return bool(text) and not _LINE_BREAK_OR_HALF_CHARACTER.search(text)


@dataclass(frozen=True, slots=True)
class Region:
    """A box, with what is known about it."""

    box: Box
    class_name: str | None = None
    """What a detector or a person calls it."""
    score: float | None = None
    """How sure the detector is, from 0 to 1."""
    feature: Float[np.ndarray, " features"] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Check box, name and score."""
        object.__setattr__(self, "box", Box.checked(self.box))
        if self.class_name is not None and not is_one_line(self.class_name):
            raise InputError(f"class {self.class_name!r} of region {tuple(self.box)}: expected a name of one line")
        if self.score is not None and not 0 <= self.score <= 1:
            raise InputError(f"score {self.score} of region {tuple(self.box)} is out of range: expected 0 to 1")


@dataclass(frozen=True, slots=True)
class RegionSet:
    """The one or more regions that one noun chunk talks about."""

    regions: tuple[Region, ...]

    def __post_init__(self) -> None:
        """Refuse an empty set."""
        if not self.regions:
            raise InputError("a region set is empty: expected at least one region")


@dataclass(frozen=True, slots=True)
class Control:
    """What the caption must talk about: region sets in order, or as a set that the sorter puts in order."""

    region_sets: tuple[RegionSet, ...]
    ordered: bool = True

    def __post_init__(self) -> None:
        """Refuse an empty control."""
        if not self.region_sets:
            raise InputError("the control is empty: expected at least one region set")

    @classmethod
    def of_boxes(cls, boxes: Iterable[Sequence[float]], *, ordered: bool = True) -> "Control":
        """One region set for each box.

        >>> len(Control.of_boxes([(20, 30, 200, 310), (180, 90, 330, 250)]).region_sets)
        2
        """
        return cls(tuple(RegionSet((Region(Box.checked(box)),)) for box in boxes), ordered=ordered)

    def check_inside(self, width: float, height: float) -> None:
        """Refuse regions that leave the image."""
        for region_set in self.region_sets:
            for region in region_set.regions:
                region.box.check_inside(width, height)
