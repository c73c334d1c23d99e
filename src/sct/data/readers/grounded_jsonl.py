"""Reader of grounded JSONL, the format for custom data: one image per line, boxes in pixels.

    {"image": "a.jpg", "width": 336, "height": 249, "captions": [
      {"text": "A boy slides .", "mentions": [{"phrase": "A boy", "span": [0, 2], "boxes": [[120, 22, 280, 134]]}]},
      {"text": "A boy plays .", "mentions": null}],
     "regions": [{"box": [120, 22, 280, 134], "class": "person", "score": 0.9}]}

``span`` counts whitespace-separated words. ``phrase`` is optional and checks it: the phrase begins in the first of
these words and ends in the last, which may also hold punctuation and a possessive "'s". ``mentions: null`` marks a
caption without groundings. ``regions`` is optional: detections on which such captions are auto-grounded.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sct.data.readers.alignment import find_phrases
from sct.data.readers.errors import ClippedBoxes, ReadErrors
from sct.data.readers.karpathy import SPLITS, Size
from sct.data.records import AnnotatedImage, Caption, Chunk, check_caption_length
from sct.errors import InputError, format_value
from sct.language.noun_chunks import label_words
from sct.language.tokenizer import Token, tokenize_with_spans
from sct.limits import MAX_CHUNKS
from sct.regions import Box, Region
from sct.storage.reading import parse_json, read_byte_lines

EXPECTED = "grounded JSONL, one image per line"


def read_grounded_jsonl(files: Mapping[str, Path], errors: ReadErrors) -> Iterator[AnnotatedImage]:
    """Read the images of files by Karpathy split, line by line."""
    seen: set[str] = set()
    clipped = ClippedBoxes()
    for stem, path in files.items():
        for number, line in enumerate(read_byte_lines(path, EXPECTED), start=1):
            if not line.strip():
                continue
            location = f"{path}, line {number}"
            try:
                image = parse_image(parse_json(line, location), SPLITS[stem], clipped)
                if image.image_id in seen:
                    raise InputError(f"image {image.image_id!r} is listed twice: expected each image once")
            except InputError as error:
                errors.report(location, str(error))
                continue
            seen.add(image.image_id)
            yield image
        clipped.warn(path)


def parse_image(content: Any, split: str, clipped: ClippedBoxes) -> AnnotatedImage:
    """Parse the object of one line.

    >>> content = {"image": "a.jpg", "width": 9, "height": 9, "captions": [{"text": "A boy ."}]}
    >>> image = parse_image(content, "train", ClippedBoxes())
    >>> image.captions[0].words, image.captions[0].chunks
    (('a', 'boy'), None)
    """
    if not isinstance(content, dict):
        raise InputError(f"got a {type(content).__name__}, expected an object with image, width, height, captions")
    name = _get_field(content, "image", str)
    width, height = Size.parse([content.get("width"), content.get("height")])
    regions: dict[Region, int] = {}

    def add_region(box: object, class_name: str | None = None, score: float | None = None) -> int:
        region = Region(clipped.clip(_parse_box(box), width, height), class_name, score)
        return regions.setdefault(region, len(regions))

    captions = [_parse_caption(item, add_region) for item in _get_field(content, "captions", list)]
    for item in _get_field(content, "regions", list) if content.get("regions") is not None else ():
        if not isinstance(item, dict):
            raise InputError(f"got region {format_value(item)}, expected an object with box and class")
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


def _parse_caption(content: Any, add_region: Callable[[object], int]) -> Caption:
    if not isinstance(content, dict):
        raise InputError(f"got caption {format_value(content)}, expected an object with text and mentions")
    text = _get_field(content, "text", str)
    check_caption_length(text)
    tokens = tokenize_with_spans(text)
    words = tuple(token.text for token in tokens)
    if content.get("mentions") is None:
        return Caption(text, words)
    mentions = _get_field(content, "mentions", list)
    if len(mentions) > MAX_CHUNKS:
        raise InputError(f"got a caption with {len(mentions):,} mentions, expected at most {MAX_CHUNKS}")
    pieces = [match.span() for match in re.finditer(r"\S+", text)]
    spans, chunks = [], []
    for mention in mentions:
        if not isinstance(mention, dict):
            raise InputError(f"got mention {format_value(mention)}, expected an object with span and boxes")
        span = _Span.parse(mention.get("span"), pieces)
        phrase = None if mention.get("phrase") is None else _get_field(mention, "phrase", str)
        boxes = _get_field(mention, "boxes", list)
        if not boxes:
            raise InputError(f"mention {span.of(text)} has no boxes: expected at least one, or no mention")
        spans.append((span.start, span.end) if phrase is None else _locate_phrase(phrase, span, text, tokens))
        chunks.append(Chunk(None, tuple(dict.fromkeys(add_region(box) for box in boxes))))
    return Caption(text, words, tuple(label_words(tokens, spans)), tuple(chunks))


class _Span(NamedTuple):
    """Words of a mention as characters of the caption."""

    start: int
    first_end: int
    """End of the first word."""
    last_start: int
    """Start of the last word."""
    end: int

    @classmethod
    def parse(cls, span: object, pieces: Sequence[tuple[int, int]]) -> "_Span":
        match span:
            case [int(first), int(last)] if type(first) is type(last) is int and 0 <= first < last <= len(pieces):
                return cls(*pieces[first], *pieces[last - 1])
        raise InputError(
            f"got span {format_value(span)}, expected [first, last) within the caption's {len(pieces)} words"
        )

    def of(self, text: str) -> str:
        return format_value(text[self.start : self.end])


def _locate_phrase(phrase: str, span: _Span, text: str, tokens: Sequence[Token]) -> tuple[int, int]:
    """Return start and end of the phrase, which may lack what the span's first and last word hold besides it."""
    if phrase.split() == text[span.start : span.end].split():
        return span.start, span.end
    inside = [token for token in tokens if span.start <= token.start < span.end]
    [found] = find_phrases(text, inside, [phrase])
    if found is not None:
        start, end = inside[found.start].start, inside[found.stop - 1].end
        if start < span.first_end and span.last_start < end:
            return start, end
    raise InputError(
        f"the span is {span.of(text)}, but the phrase is {format_value(phrase)}: "
        f"expected the span [first, last) of its words in {format_value(text)}"
    )


def _parse_box(box: object) -> Box:
    if not isinstance(box, list) or any(type(side) not in (int, float) for side in box):
        raise InputError(f"got box {format_value(box)}, expected numbers [x1, y1, x2, y2]")
    return Box.from_pixels(box)


_KINDS: dict[type, str] = {str: "text", float: "a number", list: "a list"}


def _get_field(content: Mapping[str, Any], key: str, kind: type) -> Any:
    value = content.get(key)
    if kind is float and type(value) is int and abs(value) < 2**53:
        value = float(value)
    if not isinstance(value, kind):
        raise InputError(f"got {key} {format_value(value)}, expected {_KINDS[kind]}")
    return value
