"""Type checks for JSON files of other projects."""

from typing import Any

from sct.errors import InputError, format_value


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


def as_integer(value: object, what: str) -> int:
    """Check that a value is a JSON integer of at most 64 bits.

    >>> as_integer(True, "'id'")
    Traceback (most recent call last):
        ...
    sct.errors.InputError: 'id' is True: expected an integer
    """
    if type(value) is not int or value.bit_length() > 63:
        raise InputError(f"{what} is {format_value(value)}: expected an integer")
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
