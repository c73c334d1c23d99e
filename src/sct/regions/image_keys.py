"""The name under which sources that write image ids differently find the same image."""

from collections.abc import Iterable

from sct.errors import InputError
from sct.regions.images import SUFFIXES


def image_key(image_id: str) -> str:
    """Image id, or file name, without folder, suffix of an image file and leading zeros of a number.

    >>> [image_key(name) for name in ("1001773457_577c3a7d70.jpg", "val2014/000000000042.jpg", "42", "a.b")]
    ['1001773457_577c3a7d70', '42', '42', 'a.b']
    """
    name = image_id.rsplit("/", 1)[-1]
    stem, dot, suffix = name.rpartition(".")
    key = stem if stem and f"{dot}{suffix.lower()}" in SUFFIXES else name
    return (key.lstrip("0") or "0") if key.isascii() and key.isdigit() else key


def check_image_keys(names: Iterable[str]) -> None:
    """Raise if two names have the same key."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(image_key(name), name)
        if other != name:
            raise InputError(f"images {other!r} and {name!r} have the same id: expected different file names")
