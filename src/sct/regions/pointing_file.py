"""Regions to talk about, for one or many pictures, in a JSON file.

    {"photo.jpg": [[20, 30, 200, 310], [[0, 0, 9, 9], [9, 0, 18, 9]]]}

Each item is a box, or a list of boxes that one noun chunk is to talk about. For a single picture the list will do.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sct.errors import InputError
from sct.regions.pointing import control_of
from sct.regions.records import Control

_WANTED = 'wanted {"photo.jpg": [[x1, y1, x2, y2], ...]}, or the list alone for a single picture'


def read_pointing(path: Path, files: Sequence[Path], *, ordered: bool = True) -> list[Control | None]:
    """The control of each picture; None for one that the file does not name.

    A picture is named as on the command line, or by its file name alone. A name that fits no picture is refused.
    """
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: {_WANTED}") from None
    except (ValueError, RecursionError, OSError) as error:  # the last for a folder
        raise InputError(f"{path} cannot be read as JSON ({error}): {_WANTED}") from error
    if isinstance(content, list):
        if len(files) != 1:
            raise InputError(f"{path} holds a list without a name, but there are {len(files)} pictures: {_WANTED}")
        return [_control(content, path, ordered=ordered)]
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a {type(content).__name__}: {_WANTED}")
    controls = {name: _control(regions, f"{path}, {name}", ordered=ordered) for name, regions in content.items()}
    found = [controls.get(str(file), controls.get(file.name)) for file in files]
    known = {str(file) for file in files} | {file.name for file in files}
    if unknown := [name for name in controls if name not in known]:
        raise InputError(f"{path} names {unknown[0]!r}, which is none of the {len(files)} pictures: wanted their names")
    return found


def _control(content: Any, place: object, *, ordered: bool) -> Control:
    if not isinstance(content, list) or not all(_is_region_set(item) for item in content):
        raise InputError(f"{place}: {json.dumps(content)[:60]} is no list of regions: {_WANTED}")
    try:
        return control_of(content, ordered=ordered)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


def _is_region_set(item: object) -> bool:
    return _is_box(item) or (isinstance(item, list) and bool(item) and all(_is_box(each) for each in item))


def _is_box(item: object) -> bool:
    return isinstance(item, list) and bool(item) and all(type(side) in (int, float) for side in item)
