"""JSON files of others: read whole, and checked piece by piece."""

import json
from pathlib import Path
from typing import Any

from sct.errors import InputError


def load_json(path: Path) -> Any:
    """Read a JSON file, or say where it breaks.

    A file that is one JSON value has nothing left to go on with once it breaks, so this is never skipped.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file: expected a JSON file, check the path") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a folder: expected a JSON file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8: expected a JSON file in UTF-8") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}: broken JSON at column {error.colno} ({error.msg}): "
            "expected a whole JSON file, fetch it again"
        ) from error


def mapping_of(value: object, what: str) -> dict[str, Any]:
    """Take a JSON object.

    >>> mapping_of([1], "the file")
    Traceback (most recent call last):
        ...
    sct.errors.InputError: the file is a list: expected an object with names
    """
    if not isinstance(value, dict):
        raise InputError(f"{what} is a {type(value).__name__}: expected an object with names")
    return value


def list_of(value: object, what: str) -> list[Any]:
    """Take a JSON list."""
    if not isinstance(value, list):
        raise InputError(f"{what} is a {type(value).__name__}: expected a list")
    return value


def text_of(value: object, what: str) -> str:
    """Take a JSON string."""
    if not isinstance(value, str):
        raise InputError(f"{what} is a {type(value).__name__}: expected text")
    return value


def field_of(entry: dict[str, Any], name: str, what: str) -> Any:
    """Take a named part of a JSON object.

    >>> field_of({}, "split", "image 3")
    Traceback (most recent call last):
        ...
    sct.errors.InputError: image 3 has no 'split'
    """
    if name not in entry:
        raise InputError(f"{what} has no {name!r}")
    return entry[name]
