"""Predictions JSONL: captions of any system with their references, one image and control per line.

    {"image": "a.jpg", "control": [[[20, 30, 200, 310]]], "prediction": "a boy ...", "references": ["A boy ."]}

``control`` is a list of region sets, each a list of boxes; null or missing for uncontrolled captions. Several captions
are a list ``predictions``, best first, instead of or in addition to ``prediction``.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sct.captioner.grounded_caption import GroundedChunk
from sct.errors import InputError
from sct.limits import MAX_CAPTION_CHARACTERS, MAX_CAPTIONS_PER_IMAGE
from sct.regions import Box
from sct.storage.atomic import atomic_write
from sct.storage.reading import parse_json, read_byte_lines

_EXPECTED_FILE = "a predictions file with one JSON object per line"
_EXPECTED = "expected an object with image, control, prediction, references"

Boxes = tuple[tuple[tuple[float, ...], ...], ...]
"""Region sets as boxes."""
_MAX_LISTED_LINES = 10
"""Invalid lines that an error lists besides the first."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Caption with its image, control and references."""

    image: str
    control: Boxes | None
    """None for uncontrolled captions."""
    prediction: str
    references: tuple[str, ...]
    predictions: tuple[str, ...] = ()
    """Several captions, best first; empty if there is one."""
    chunks: tuple[GroundedChunk, ...] = ()
    """Noun chunks with the index of their region set, if known."""
    log_prob: float | None = None
    num_dropped_sets: int = 0
    """Region sets of the control beyond those that the sorter can order, which the caption was not given."""

    def as_dict(self) -> dict[str, Any]:
        """JSON values; unknown fields are omitted."""
        content: dict[str, Any] = {
            "image": self.image,
            "control": self.control,
            "prediction": self.prediction,
            "references": self.references,
        }
        if self.predictions:
            content["predictions"] = self.predictions
        if self.chunks:
            content["chunks"] = [
                {"text": chunk.text, "words": chunk.words, "region_set": chunk.region_set} for chunk in self.chunks
            ]
        if self.log_prob is not None:
            content["log_prob"] = self.log_prob
        if self.num_dropped_sets:
            content["num_dropped_sets"] = self.num_dropped_sets
        return content


def round_box(box: Iterable[float]) -> tuple[float, ...]:
    """Round to seven significant digits, the precision of float32, as boxes are written to predictions files."""
    return tuple(float(f"{side:.7g}") for side in box)


def write_predictions(path: Path, predictions: Iterable[Prediction]) -> None:
    """Write a predictions file atomically."""
    with atomic_write(path) as file:
        for prediction in predictions:
            file.write(json.dumps(prediction.as_dict(), ensure_ascii=False).encode("utf-8") + b"\n")


def read_predictions(path: Path) -> list[Prediction]:
    """Read a predictions file; an error lists all invalid lines, with the reason for the first.

    Empty lines and unknown keys are ignored.
    """
    predictions: list[Prediction] = []
    first_error: tuple[int, InputError] | None = None
    others: list[int] = []
    num_others = 0
    for number, line in enumerate(read_byte_lines(path, _EXPECTED_FILE), start=1):
        if line.strip():
            try:
                predictions.append(parse_prediction(line))
            except InputError as error:
                if first_error is None:
                    first_error = number, error
                else:
                    num_others += 1
                    others += [number] if num_others <= _MAX_LISTED_LINES else []
    if first_error is not None:
        more = f" and {num_others - len(others):,} more" if num_others > len(others) else ""
        also = f" (also invalid: {', '.join(map(str, others))}{more})" if others else ""
        raise InputError(f"{path}, line {first_error[0]}: {first_error[1]}{also}") from first_error[1]
    if not predictions:
        raise InputError(f"{path} is empty: expected {_EXPECTED_FILE}")
    return predictions


def parse_prediction(line: bytes) -> Prediction:
    """Parse one line of a predictions file.

    >>> parse_prediction(b'{"image": "a.jpg", "prediction": "a boy", "references": ["A boy ."]}').references
    ('A boy .',)
    """
    try:
        content = parse_json(line.rstrip(b"\r\n"), "it")
    except InputError as error:
        raise InputError(f"{error}: {_EXPECTED}") from error
    if not isinstance(content, dict):
        raise InputError(f"got a JSON {type(content).__name__}, {_EXPECTED}")
    several = _texts(content, "predictions") if "predictions" in content else ()
    if several and "prediction" not in content:
        content["prediction"] = several[0]
    return Prediction(
        image=_text(content, "image"),
        control=_control(content.get("control")),
        prediction=_text(content, "prediction"),
        references=_texts(content, "references"),
        predictions=several,
    )


def merge_lines(predictions: Sequence[Prediction]) -> list[Prediction]:
    """Merge lines of one image and control, with the same references, into one line with several captions."""
    merged: dict[tuple[str, Boxes | None], Prediction] = {}
    for line in predictions:
        captions = line.predictions or (line.prediction,)
        key = (line.image, line.control)
        first = merged.get(key)
        if first is None:
            merged[key] = replace(line, predictions=captions)
        elif first.references != line.references:
            raise InputError(
                f"image {line.image!r} has two lines of one control with different references, expected the same"
            )
        elif len(first.predictions) + len(captions) > MAX_CAPTIONS_PER_IMAGE:
            raise InputError(f"image {line.image!r} has more than {MAX_CAPTIONS_PER_IMAGE:,} captions: score fewer")
        else:
            merged[key] = replace(first, predictions=first.predictions + captions)
    return list(merged.values())


def _text(content: dict[str, Any], name: str) -> str:
    if name not in content:
        raise InputError(f"{name!r} is missing, {_EXPECTED}")
    return _checked_text(content[name], name)


def _checked_text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name}: got {_short(value)}, expected a string")
    if len(value) > MAX_CAPTION_CHARACTERS:
        raise InputError(f"{name} has {len(value):,} characters, expected at most {MAX_CAPTION_CHARACTERS:,}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{name}: got {_short(value)} with a lone surrogate, expected Unicode text") from error
    return value


def _texts(content: dict[str, Any], name: str) -> tuple[str, ...]:
    if name not in content:
        raise InputError(f"{name!r} is missing, {_EXPECTED}")
    value = content[name]
    if not isinstance(value, list):
        raise InputError(f"{name}: got {_short(value)}, expected a list of strings")
    if not value:
        raise InputError(f"{name} is empty, expected at least one string")
    if len(value) > MAX_CAPTIONS_PER_IMAGE:
        raise InputError(f"{name} has {len(value):,} strings, expected at most {MAX_CAPTIONS_PER_IMAGE:,}")
    return tuple(_checked_text(text, f"item of {name}") for text in value)


def _control(value: object) -> Boxes | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(members, list) for members in value):
        raise InputError(f"control: got {_short(value)}, expected a list of region sets, each a list of boxes")
    return tuple(tuple(_box(box) for box in members) for members in value)


def _box(value: object) -> tuple[float, ...]:
    message = f"control: got box {_short(value)}, expected [x1, y1, x2, y2] with x1 < x2 and y1 < y2"
    if not (isinstance(value, list) and all(type(side) in (int, float) for side in value)):
        raise InputError(message)
    try:
        return tuple(Box.from_corners(value))
    except InputError as error:  # its message would show a number of 300 digits in full
        raise InputError(message) from error


def _short(value: object) -> str:
    try:
        text = json.dumps(value)
    except RecursionError:
        return "deeply nested values"
    return text if len(text) <= 60 else f"{text[:57]}..."
