"""Grounded JSONL, the format for anybody's own data: one image a line, boxes in pixels.

    {"image": "a.jpg", "width": 336, "height": 249, "captions": [
      {"text": "A boy slides .", "mentions": [{"phrase": "A boy", "span": [0, 2], "boxes": [[120, 22, 280, 134]]}]},
      {"text": "A boy plays .", "mentions": null}],
     "regions": [{"box": [120, 22, 280, 134], "class": "person", "score": 0.9}]}

``span`` counts whitespace-separated words; ``mentions: null`` is a caption that is not grounded yet. ``regions`` is
optional: what a detector found, for the builder to ground such captions on.
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

OVERHANG = 1.0
"""Boxes that were scaled and rounded may leave the image by this many pixels; they are cut at its edge."""


def read_grounded_jsonl(files: Mapping[str, Path], faults: ReadErrors) -> Iterator[AnnotatedImage]:
    """Images of each file, line by line; ``files`` is by the name of Karpathy's split."""
    seen: set[str] = set()
    for stem, path in files.items():
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                place = f"{path}, line {number}"
                try:
                    image = parse_line(line, SPLITS[stem])
                    if image.image_id in seen:
                        raise InputError(f"image {image.image_id!r} was there before")
                except InputError as error:
                    faults.report(place, str(error))
                    continue
                seen.add(image.image_id)
                yield image


def parse_line(line: bytes, split: str) -> AnnotatedImage:
    """One image of one line.

    >>> image = parse_line(b'{"image": "a.jpg", "width": 9, "height": 9, "captions": [{"text": "A boy ."}]}', "train")
    >>> image.captions[0].words, image.captions[0].chunks
    (('a', 'boy'), None)
    """
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error}): expected one image a line") from error
    if not isinstance(content, dict):
        raise InputError(f"a {type(content).__name__}: expected an object with image, width, height, captions")
    name = _field(content, "image", str)
    width, height = _field(content, "width", float), _field(content, "height", float)
    if not (0 < width < inf and 0 < height < inf):
        raise InputError(f"the image is {width} x {height}: expected sides above 0")
    regions: dict[Region, int] = {}

    def index_of(box: object, class_name: str | None = None, score: float | None = None) -> int:
        return regions.setdefault(Region(_fitted(box, width, height), class_name, score), len(regions))

    captions = [_caption(item, index_of) for item in _field(content, "captions", list)]
    for item in _field(content, "regions", list) if content.get("regions") is not None else ():
        if not isinstance(item, dict):
            raise InputError(f"region {item!r}: expected an object with box and class")
        score = item.get("score")
        index_of(item.get("box"), _field(item, "class", str), None if score is None else _field(item, "score", float))
    return AnnotatedImage(
        image_id=name,
        split=split,
        width=width,
        height=height,
        regions=tuple(regions),
        captions=tuple(captions),
        file=name,
    )


def _caption(content: Any, index_of: Any) -> Caption:
    if not isinstance(content, dict):
        raise InputError(f"caption {content!r}: expected an object with text and mentions")
    text = _field(content, "text", str)
    tokens = tokenize_with_spans(text)
    words = tuple(token.text for token in tokens)
    if content.get("mentions") is None:
        return Caption(text, words)
    pieces = [(match.start(), match.end()) for match in re.finditer(r"\S+", text)]
    spans, chunks = [], []
    for mention in _field(content, "mentions", list):
        first, last = _span(mention, len(pieces))
        start, end = pieces[first][0], pieces[last - 1][1]
        phrase = text[start:end] if mention.get("phrase") is None else _field(mention, "phrase", str)
        if phrase.split() != text[start:end].split():
            raise InputError(
                f"span [{first}, {last}] of {text!r} reads {text[start:end]!r}, but the phrase is {phrase!r}"
            )
        boxes = _field(mention, "boxes", list)
        if not boxes:
            raise InputError(f"mention {text[start:end]!r} has no boxes: leave it out, or give it one")
        spans.append((start, end))
        chunks.append(Chunk(None, tuple(dict.fromkeys(index_of(box) for box in boxes))))
    return Caption(text, words, tuple(label_words(tokens, spans)), tuple(chunks))


def _span(mention: Any, num_words: int) -> tuple[int, int]:
    span = mention.get("span") if isinstance(mention, dict) else None
    match span:
        case [int(first), int(last)] if 0 <= first < last <= num_words:
            return first, last
    raise InputError(f"mention {mention!r}: expected a span [first, last) within {num_words} words")


def _fitted(box: object, width: float, height: float) -> Box:
    if not isinstance(box, Sequence) or isinstance(box, str):
        raise InputError(f"box {box!r}: expected [x1, y1, x2, y2]")
    corners = Box.checked(box)
    corners.check_inside(width, height, overhang=OVERHANG)
    return Box.checked((max(corners.x1, 0), max(corners.y1, 0), min(corners.x2, width), min(corners.y2, height)))


def _field(content: Mapping[str, Any], key: str, kind: type) -> Any:
    value = content.get(key)
    if kind is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        value = float(value)
    if not isinstance(value, kind):
        raise InputError(f"{key} is {str(value)[:40]!r}: expected a {kind.__name__}")
    return value
