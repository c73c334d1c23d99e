"""Convert boxes and regions given by users to controls: from Python, the command line, and JSON files.

A JSON file has the regions of one or many images:

    {"photo.jpg": [[20, 30, 200, 310], [[0, 0, 9, 9], [9, 0, 18, 9]]]}

Each item is a box, or a list of boxes for one noun chunk. For a single image the list alone is enough.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from sct.errors import InputError, format_value
from sct.regions.records import Box, Control, Region, RegionSet
from sct.regions.supervision import SupervisionDetections, is_supervision
from sct.storage.reading import read_json

logger = logging.getLogger(__name__)

RegionSetLike = (
    Region | RegionSet | Sequence[float] | Sequence[Region] | Sequence[Sequence[float]] | Shaped[np.ndarray, "..."]
)
"""Regions of one noun chunk: a box, a region, or several of them."""
RegionsLike = Control | Sequence[RegionSetLike] | Shaped[np.ndarray, "..."] | SupervisionDetections
"""Regions of a caption, as numpy's ``ArrayLike``."""

_EXPECTED = "expected a list of boxes, [(x1, y1, x2, y2), ...], also for one box"
_EXPECTED_JSON = '{"photo.jpg": [[x1, y1, x2, y2], ...]}, or the list alone for a single image'


def as_control(regions: RegionsLike, *, ordered: bool = True, relative: bool = False) -> Control:
    """Convert regions to a control with one region set per item.

    A ``Control`` stays unordered whatever ``ordered`` is. With ``relative``, boxes are fractions of the image.

    >>> control = as_control([(20, 30, 200, 310), [(0, 0, 9, 9), (9, 0, 18, 9)]])
    >>> [len(region_set.regions) for region_set in control.region_sets]
    [1, 2]
    """
    if isinstance(regions, Control):
        return replace(regions, ordered=regions.ordered and ordered, relative=regions.relative or relative)
    if is_supervision(regions):
        return Control.from_supervision(regions, ordered=ordered)
    sets = tuple(_as_region_set(item, relative=relative) for item in _as_list(regions))
    return Control(sets, ordered=ordered, relative=relative)


def clip_control(control: Control, width: float, height: float, name: str) -> Control:
    """Convert relative boxes to pixels, and clip those that leave the image by a few; ``name`` is the image's.

    Clipping logs one warning, which Python prints on stderr without logging set up. Boxes farther outside are an error.
    """
    control = control.to_pixels(width, height)
    try:
        clipped = control.clip(width, height)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    if clipped is not control:
        logger.warning("%s: clipped boxes to the image, %g x %g pixels", name, width, height)
    return clipped


def parse_region_set(text: str, *, relative: bool = False) -> RegionSet:
    """Parse the boxes and the name of one region set as written on the command line.

    With ``relative``, boxes are fractions of the image.

    >>> region_set = parse_region_set("20,30,200,310+0,0,9.5,9=two horses")
    >>> [tuple(region.box) for region in region_set.regions], region_set.name
    ([(20.0, 30.0, 200.0, 310.0), (0.0, 0.0, 9.5, 9.0)], 'two horses')
    """
    boxes, equals, name = text.partition("=")
    try:
        corners = [[float(side) for side in box.split(",")] for box in boxes.split("+")]
    except ValueError:
        raise InputError(
            f"got region {format_value(text)}, expected X1,Y1,X2,Y2 in pixels, with =NAME to name it: join boxes of "
            "one noun chunk by +"
        ) from None
    if equals and not name.strip():
        raise InputError(f"got region {format_value(text)} with an empty name, expected X1,Y1,X2,Y2=NAME")
    make_box = Box.from_fractions if relative else Box.from_pixels
    return RegionSet(tuple(Region(make_box(box), name=name.strip() or None) for box in corners))


def read_controls(
    path: Path, files: Sequence[Path], *, ordered: bool = True, relative: bool = False
) -> list[Control | None]:
    """Read the control of each image file; None for images that the JSON file does not name.

    Images are named as in ``files``, or by file name only. Names that match no image are refused.
    """
    content = read_json(path, _EXPECTED_JSON)
    if isinstance(content, list):
        if len(files) != 1:
            raise InputError(
                f"{path} has a list without image names for {len(files)} images: expected {_EXPECTED_JSON}"
            )
        return [parse_control(content, path, ordered=ordered, relative=relative)]
    if not isinstance(content, dict):
        raise InputError(f"{path} has a {type(content).__name__}: expected {_EXPECTED_JSON}")
    controls = {
        name: parse_control(regions, f"{path}, {name}", ordered=ordered, relative=relative)
        for name, regions in content.items()
    }
    known = {str(file) for file in files} | {file.name for file in files}
    if unknown := [name for name in controls if name not in known]:
        raise InputError(
            f"{path} names {format_value(unknown[0])}, which is none of the {len(files)} images: use their names"
        )
    return [controls.get(str(file), controls.get(file.name)) for file in files]


def _as_region_set(item: object, *, relative: bool) -> RegionSet:
    if isinstance(item, RegionSet):
        return item
    if isinstance(item, Region):
        return RegionSet((item,))
    members = _as_list(item)
    if members and all(isinstance(member, Region | Sequence | np.ndarray) for member in members):
        return RegionSet(tuple(_as_region(member, relative=relative) for member in members))
    return RegionSet((_as_region(members, relative=relative),))


def _as_region(item: object, *, relative: bool) -> Region:
    if isinstance(item, Region):
        return item
    if relative:
        return Region(Box.from_fractions(_as_list(item)))
    try:
        return Region(Box.from_pixels(_as_list(item)))
    except InputError as error:
        hint = " (relative=True, or --relative, takes fractions)" if "fractions" in str(error) else ""
        raise InputError(f"{error}{hint}") from error


def _as_list(item: object) -> list[Any]:
    if isinstance(item, np.ndarray):
        item = item.tolist()
    if isinstance(item, Sequence) and not isinstance(item, str | bytes):
        return list(item)
    raise InputError(f"got region {format_value(item)}: {_EXPECTED}")


def parse_control(content: Any, source: object, *, ordered: bool = True, relative: bool = False) -> Control:
    """Convert the regions of an image in JSON to a control; ``source`` names them in errors."""
    if not isinstance(content, list) or not all(_is_region_set(item) for item in content):
        raise InputError(f"{source}: got {format_value(content)}: expected {_EXPECTED_JSON}")
    try:
        return as_control(content, ordered=ordered, relative=relative)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


def _is_region_set(item: object) -> bool:
    return _is_box(item) or (isinstance(item, list) and bool(item) and all(_is_box(each) for each in item))


def _is_box(item: object) -> bool:
    return isinstance(item, list) and bool(item) and all(type(side) in (int, float) for side in item)
