"""Reader of grounded JSONL, the format for custom data: one image per line, boxes in pixels.

    {"image": "a.jpg", "width": 336, "height": 249, "captions": [
      {"text": "A boy slides .", "mentions": [{"phrase": "A boy", "span": [0, 2], "boxes": [[120, 22, 280, 134]]}]},
      {"text": "A boy plays .", "mentions": null}],
     "regions": [{"box": [120, 22, 280, 134], "class": "person", "score": 0.9}]}

``span`` counts whitespace-separated words; ``mentions: null`` marks a caption without groundings. ``regions`` is
optional: detections on which such captions are auto-grounded.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

from sct.data.readers.errors import ReadErrors
from sct.data.readers.karpathy import SPLITS
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.errors import InputError
from sct.language.noun_chunks import label_words
from sct.language.tokenizer import tokenize_with_spans
from sct.regions import Box, Region

TOLERANCE = 1.0
"""Scaled and rounded boxes may exceed the image by this many pixels; they are clipped."""


def read_grounded_jsonl(files: Mapping[str, Path], errors: ReadErrors) -> Iterator[AnnotatedImage]:
    """Read the images of files by Karpathy split, line by line."""
    seen: set[str] = set()
    for stem, path in files.items():
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                location = f"{path}, line {number}"
                try:
                    image = parse_line(line, SPLITS[stem])
                    if image.image_id in seen:
                        raise InputError(f"image {image.image_id!r} is listed twice: expected each image once")
                except InputError as error:
                    errors.report(location, str(error))
                    continue
                seen.add(image.image_id)
                yield image


def parse_line(line: bytes, split: str) -> AnnotatedImage:
    """Parse one line.

    >>> image = parse_line(b'{"image": "a.jpg", "width": 9, "height": 9, "captions": [{"text": "A boy ."}]}', "train")
    >>> image.captions[0].words, image.captions[0].chunks
    (('a', 'boy'), None)
    """
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"invalid JSON ({error}): expected one image per line") from error
    if not isinstance(content, dict):
        raise InputError(f"got a {type(content).__name__}, expected an object with image, width, height, captions")
    name = _get_field(content, "image", str)
    width, height = _get_field(content, "width", float), _get_field(content, "height", float)
    if not (0 < width < inf and 0 < height < inf):
        raise InputError(f"got size {width} x {height}, expected positive numbers")
    regions: dict[Region, int] = {}

    def add_region(box: object, class_name: str | None = None, score: float | None = None) -> int:
        return regions.setdefault(Region(_clip_box(box, width, height), class_name, score), len(regions))

    captions = [_parse_caption(item, add_region) for item in _get_field(content, "captions", list)]
    for item in _get_field(content, "regions", list) if content.get("regions") is not None else ():
        if not isinstance(item, dict):
            raise InputError(f"got region {item!r}, expected an object with box and class")
        score = None if item.get("score") is None else _get_field(item, "score", float)
        add_region(item.get("box"), _get_field(item, "class", str), score)
    return AnnotatedImage(
        image_id=name,
        split=split,
        width=width,
        height=height,
        regions=tuple(regions),
        captions=tuple(captions),
        file=name,
    )


def _parse_caption(content: Any, add_region: Any) -> Caption:
    if not isinstance(content, dict):
        raise InputError(f"got caption {content!r}, expected an object with text and mentions")
    text = _get_field(content, "text", str)
    tokens = tokenize_with_spans(text)
    words = tuple(token.text for token in tokens)
    if content.get("mentions") is None:
        return Caption(text, words)
    pieces = [(match.start(), match.end()) for match in re.finditer(r"\S+", text)]
    spans, chunks = [], []
    for mention in _get_field(content, "mentions", list):
        first, last = _parse_span(mention, len(pieces))
        start, end = pieces[first][0], pieces[last - 1][1]
        phrase = text[start:end] if mention.get("phrase") is None else _get_field(mention, "phrase", str)
        if phrase.split() != text[start:end].split():
            raise InputError(f"span [{first}, {last}] of {text!r} is {text[start:end]!r}, but the phrase is {phrase!r}")
        boxes = _get_field(mention, "boxes", list)
        if not boxes:
            raise InputError(f"mention {text[start:end]!r} has no boxes: expected at least one, or no mention")
        spans.append((start, end))
        chunks.append(Chunk(None, tuple(dict.fromkeys(add_region(box) for box in boxes))))
    return Caption(text, words, tuple(label_words(tokens, spans)), tuple(chunks))


def _parse_span(mention: Any, num_words: int) -> tuple[int, int]:
    span = mention.get("span") if isinstance(mention, dict) else None
    match span:
        case [int(first), int(last)] if 0 <= first < last <= num_words:
            return first, last
    raise InputError(f"got mention {mention!r}, expected a span [first, last) within {num_words} words")


def _clip_box(box: object, width: float, height: float) -> Box:
    if not isinstance(box, Sequence) or isinstance(box, str):
        raise InputError(f"got box {box!r}, expected [x1, y1, x2, y2]")
    corners = Box.from_corners(box)
    corners.check_inside(width, height, overhang=TOLERANCE)
    return Box.from_corners((max(corners.x1, 0), max(corners.y1, 0), min(corners.x2, width), min(corners.y2, height)))


def _get_field(content: Mapping[str, Any], key: str, kind: type) -> Any:
    value = content.get(key)
    if kind is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        value = float(value)
    if not isinstance(value, kind):
        raise InputError(f"got {key} {str(value)[:40]!r}, expected a {kind.__name__}")
    return value
