"""The name under which sources that write image ids differently find the same image."""

import re
from collections.abc import Iterable

from sct.errors import InputError
from sct.regions.images import SUFFIXES

_COCO_2014 = re.compile(r"COCO_(?:train|val|test)2014_(?=\d+\Z)", re.ASCII)
"""What the release of 2014 writes before the number of an image."""


def image_key(image_id: str) -> str:
    """Image id, or file name, without folder, suffix of an image file and leading zeros of a number.

    >>> [image_key(name) for name in ("1001773457_577c3a7d70.jpg", "val2017/000000000042.jpg", "42", "a.b")]
    ['1001773457_577c3a7d70', '42', '42', 'a.b']
    >>> image_key("val2014/COCO_val2014_000000000042.jpg")
    '42'
    """
    name = image_id.rsplit("/", 1)[-1]
    stem, dot, suffix = name.rpartition(".")
    key = _COCO_2014.sub("", stem if stem and f"{dot}{suffix.lower()}" in SUFFIXES else name)
    return (key.lstrip("0") or "0") if key.isascii() and key.isdigit() else key


def check_image_keys(names: Iterable[str]) -> None:
    """Raise if two names have the same key."""
    seen: dict[str, str] = {}
    for name in names:
        key = image_key(name)
        if key in seen:
            raise InputError(f"images {seen[key]!r} and {name!r} have the same id: expected different file names")
        seen[key] = name
