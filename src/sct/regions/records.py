"""Box, region, region set and control, validated on construction."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from sct.errors import InputError, format_value
from sct.limits import MAX_BOX_OVERHANG, MAX_COORDINATE, MAX_NAME_CHARACTERS, MAX_RELATIVE_BOX_OVERHANG

NO_CLASS = 65535
"""Class id, in uint16 arrays, of regions and chunks without a class."""
_MAX_REPR_SETS = 8


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
            raise InputError(f"box {format_value(tuple(corners))} has {len(corners)} numbers: expected x1, y1, x2, y2")
        try:
            box = cls(*[float(value + 0) for value in corners])  # float() alone would read text
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"box {format_value(tuple(corners))} is not made of numbers: expected x1, y1, x2, y2"
            ) from error
        if not all(map(isfinite, box)):
            raise InputError(f"box {tuple(box)} is not finite: expected four numbers in pixels")
        if max(box) > MAX_COORDINATE or min(box) < -MAX_COORDINATE:
            raise InputError(f"box {tuple(box)} is too large: expected pixels, at most {MAX_COORDINATE:,}")
        # In float32, as boxes are stored, a small box must not become empty.
        x1, y1, x2, y2 = box if box.x2 - box.x1 > 2 and box.y2 - box.y1 > 2 else np.array(box, np.float32).tolist()
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

    @classmethod
    def from_pixels(cls, corners: Sequence[float]) -> "Box":
        """Validate corners that a user gave; fractions of the image are refused.

        >>> Box.from_pixels([0.1, 0.1, 0.5, 0.5])
        Traceback (most recent call last):
            ...
        sct.errors.InputError: box (0.1, 0.1, 0.5, 0.5) is one pixel or smaller: expected pixels, not fractions
        """
        box = cls.from_corners(corners)
        if min(box) >= 0 and max(box) <= 1:
            raise InputError(f"box {tuple(box)} is one pixel or smaller: expected pixels, not fractions")
        return box

    @classmethod
    def from_fractions(cls, corners: Sequence[float]) -> "Box":
        """Validate corners relative to an image, from 0 to 1.

        >>> Box.from_fractions([0, 0.25, 0.5, 1])
        Box(x1=0.0, y1=0.25, x2=0.5, y2=1.0)
        """
        box = cls.from_corners(corners)
        if min(box) < 0 or max(box) > 1:
            raise InputError(f"box {tuple(box)} leaves 0 to 1: expected fractions of the image, as relative boxes are")
        return box

    def scale(self, width: float, height: float) -> "Box":
        """Box with its sides multiplied: from fractions of an image to its pixels."""
        return Box(self.x1 * width, self.y1 * height, self.x2 * width, self.y2 * height)

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

    def clip(self, width: float, height: float) -> "Box":
        """Cut off what leaves the image by a few pixels; farther outside is an error. A box inside is returned itself.

        >>> Box(-1.0, 30.0, 642.0, 310.0).clip(640, 480)
        Box(x1=0.0, y1=30.0, x2=640.0, y2=310.0)
        """
        if self.x1 >= 0 and self.y1 >= 0 and self.x2 <= width and self.y2 <= height:
            return self
        overhang_x, overhang_y = (max(MAX_BOX_OVERHANG, MAX_RELATIVE_BOX_OVERHANG * side) for side in (width, height))
        clipped = Box(max(self.x1, 0.0), max(self.y1, 0.0), min(self.x2, float(width)), min(self.y2, float(height)))
        is_near = (
            min(self.x1 + overhang_x, self.y1 + overhang_y) >= 0
            and self.x2 <= width + overhang_x
            and self.y2 <= height + overhang_y
        )
        if not is_near or clipped.x1 >= clipped.x2 or clipped.y1 >= clipped.y2:
            self.check_inside(width, height)
        return clipped


_LINE_BREAK_OR_SURROGATE = re.compile("[\n\ud800-\udfff]")


def is_one_line(text: str) -> bool:
    """Whether a name is not empty, not too long, and has no line breaks and no lone surrogates.

    >>> is_one_line("hot dog"), is_one_line(""), is_one_line("hot" + chr(10) + "dog")
    (True, False, False)
    """
    return 0 < len(text) <= MAX_NAME_CHARACTERS and not _LINE_BREAK_OR_SURROGATE.search(text)


@dataclass(frozen=True, slots=True)
class Region:
    """A box with optional class, score, feature and name.

    >>> Region(Box(20, 30, 200, 310), name="white horse").name
    'white horse'
    """

    box: Box
    class_name: str | None = None
    """Class of a detector, which a caption may ignore; of a named region, its name."""
    score: float | None = None
    """Confidence of the detector, from 0 to 1."""
    feature: Float[np.ndarray, " features"] | None = field(default=None, compare=False, repr=False)
    attributes: tuple[str, ...] = ()
    """Adjectives of the detector, most probable first: red, wooden."""
    name: str | None = None
    """Name given by a person, which the noun chunk grounded on the region says: horse, white horse."""

    def __post_init__(self) -> None:
        """Check box, names and score."""
        object.__setattr__(self, "box", Box.from_corners(self.box))
        if self.name is not None and not (is_one_line(self.name) and self.name.strip()):
            raise InputError(f"name {self.name!r} of region {tuple(self.box)}: expected a few words on one line")
        if self.class_name is not None and not is_one_line(self.class_name):
            raise InputError(f"class {self.class_name!r} of region {tuple(self.box)}: expected a name of one line")
        if self.score is not None and not 0 <= self.score <= 1:
            raise InputError(f"score {self.score} of region {tuple(self.box)} is out of range: expected 0 to 1")


@dataclass(frozen=True, slots=True)
class RegionSet:
    """One or more regions that one noun chunk describes."""

    regions: tuple[Region, ...]

    def __post_init__(self) -> None:
        """Check that it is not empty and has at most one name."""
        if not self.regions:
            raise InputError("a region set is empty: expected at least one region")
        if len(names := {region.name for region in self.regions} - {None}) > 1:
            raise InputError(
                f"got the names {format_value(sorted(map(str, names)))} in one region set, which one noun chunk "
                "describes: give it one name, or give the regions apart"
            )

    @property
    def name(self) -> str | None:
        """Name that a person gave, if any."""
        return next((region.name for region in self.regions if region.name is not None), None)


@dataclass(frozen=True, slots=True, repr=False)
class Control:
    """Region sets that a caption describes: a sequence, or a set that the sorter orders.

    >>> Control.from_boxes([(20, 30, 200, 310), (180, 90, 330.5, 250)])
    Control([20,30,200,310], [180,90,330.5,250])
    """

    region_sets: tuple[RegionSet, ...]
    ordered: bool = True
    """Whether the region sets are described in this order; if not, the sorter orders them."""
    relative: bool = False
    """Whether boxes are fractions of the image, from 0 to 1, rather than pixels."""

    def __post_init__(self) -> None:
        """Check that it is not empty, and that relative boxes are fractions."""
        if not self.region_sets:
            raise InputError("the control is empty: expected at least one region set")
        if self.relative:
            for region_set in self.region_sets:
                for region in region_set.regions:
                    Box.from_fractions(region.box)

    def __repr__(self) -> str:
        """Return the boxes of each region set, those of one set joined by +, as on the command line."""
        sets = [
            "+".join(f"[{','.join(f'{side:.6g}' for side in region.box)}]" for region in region_set.regions)
            for region_set in self.region_sets[:_MAX_REPR_SETS]
        ]
        more = len(self.region_sets) - len(sets)
        flags = (
            [f"{more} more"] * bool(more) + ["ordered=False"] * (not self.ordered) + ["relative=True"] * self.relative
        )
        return f"Control({', '.join([*sets, *flags])})"

    @classmethod
    def from_boxes(cls, boxes: Iterable[Sequence[float]], *, ordered: bool = True, relative: bool = False) -> "Control":
        """Control with one region set per box.

        >>> len(Control.from_boxes([(20, 30, 200, 310), (180, 90, 330, 250)]).region_sets)
        2
        """
        validate = Box.from_fractions if relative else Box.from_corners
        return cls(tuple(RegionSet((Region(validate(box)),)) for box in boxes), ordered=ordered, relative=relative)

    @classmethod
    def from_supervision(cls, detections: Any, *, ordered: bool = True) -> "Control":
        """Control with one region set per row of a ``supervision.Detections``; class names and scores are kept."""
        from sct.regions.supervision import regions_from_supervision  # noqa: PLC0415  only if it is used

        return cls(tuple(RegionSet((region,)) for region in regions_from_supervision(detections)), ordered=ordered)

    def to_pixels(self, width: float, height: float) -> "Control":
        """Control with boxes in pixels of an image of this size; itself if they are already.

        >>> Control.from_boxes([(0, 0.25, 0.5, 1)], relative=True).to_pixels(640, 480)
        Control([0,120,320,480])
        """
        if not self.relative:
            return self
        return Control(
            tuple(
                RegionSet(tuple(replace(region, box=region.box.scale(width, height)) for region in region_set.regions))
                for region_set in self.region_sets
            ),
            ordered=self.ordered,
        )

    def clip(self, width: float, height: float) -> "Control":
        """Control with its boxes clipped to the image, see ``Box.clip``; itself if no box leaves the image.

        >>> control = Control.from_boxes([(0, 0, 9, 9)])
        >>> control.clip(9, 9) is control, control.clip(8, 9).region_sets[0].regions[0].box.x2
        (True, 8.0)
        """
        regions = [region for region_set in self.region_sets for region in region_set.regions]
        if all(region.box.clip(width, height) is region.box for region in regions):
            return self
        return replace(
            self,
            region_sets=tuple(
                RegionSet(tuple(replace(region, box=region.box.clip(width, height)) for region in region_set.regions))
                for region_set in self.region_sets
            ),
        )
