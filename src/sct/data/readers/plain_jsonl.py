"""Reader of plain captions in JSONL, one image per line: grounded JSONL without mentions, or simpler.

    {"image": "a.jpg", "captions": ["A boy slides .", {"text": "A boy plays ."}]}

Sizes are not needed.
"""

from pathlib import Path
from typing import Any

from sct.data.readers.grounded_jsonl import EXPECTED
from sct.errors import InputError, format_value
from sct.limits import MAX_CAPTIONS_PER_IMAGE
from sct.storage.reading import parse_json, read_byte_lines


def read_plain_jsonl(path: Path) -> dict[str, list[str]] | None:
    """Read the captions of each image; None if one has mentions, for which there is ``read_grounded_jsonl``."""
    images: dict[str, list[str]] = {}
    for number, line in enumerate(read_byte_lines(path, EXPECTED), start=1):
        if not line.strip():
            continue
        location = f"{path}, line {number}"
        match parse_json(line, location):
            case {"image": str(name), "captions": list(captions)}:
                pass
            case other:
                raise InputError(f"{location}: got {format_value(other)}, expected an object with image and captions")
        if any(isinstance(caption, dict) and caption.get("mentions") for caption in captions):
            return None
        if name in images:
            raise InputError(f"{location}: image {format_value(name)} is listed twice: expected each image once")
        if len(captions) > MAX_CAPTIONS_PER_IMAGE:
            raise InputError(f"{location}: got {len(captions):,} captions, expected at most {MAX_CAPTIONS_PER_IMAGE:,}")
        images[name] = [_parse_caption(caption, location) for caption in captions]
    return images


def _parse_caption(caption: Any, location: str) -> str:
    match caption:
        case str(text) | {"text": str(text)}:
            return text
    raise InputError(f"{location}: got caption {format_value(caption)}, expected text, or an object with text")
