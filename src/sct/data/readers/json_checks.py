"""Type checks for JSON files of other projects."""

import json
from pathlib import Path
from typing import Any

from sct.errors import InputError


def load_json(path: Path) -> Any:
    """Read a JSON file, or raise with the location of the error.

    A broken JSON file cannot be read in part, so ``--skip-bad`` does not apply.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist: expected a JSON file") from error
    except IsADirectoryError as error:
        raise InputError(f"{path} is a folder: expected a JSON file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8: expected a JSON file in UTF-8") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}: invalid JSON at column {error.colno} ({error.msg}): download the file again"
        ) from error


def as_object(value: object, what: str) -> dict[str, Any]:
    """Check that a value is a JSON object.

    >>> as_object([1], "the file")
    Traceback (most recent call last):
        ...
    sct.errors.InputError: the file is a list: expected an object
    """
    if not isinstance(value, dict):
        raise InputError(f"{what} is a {type(value).__name__}: expected an object")
    return value


def as_list(value: object, what: str) -> list[Any]:
    """Check that a value is a JSON list."""
    if not isinstance(value, list):
        raise InputError(f"{what} is a {type(value).__name__}: expected a list")
    return value


def as_text(value: object, what: str) -> str:
    """Check that a value is a JSON string."""
    if not isinstance(value, str):
        raise InputError(f"{what} is a {type(value).__name__}: expected text")
    return value


def get_field(entry: dict[str, Any], name: str, what: str) -> Any:
    """Return a field of a JSON object.

    >>> get_field({}, "split", "image 3")
    Traceback (most recent call last):
        ...
    sct.errors.InputError: image 3 has no 'split'
    """
    if name not in entry:
        raise InputError(f"{what} has no {name!r}")
    return entry[name]
