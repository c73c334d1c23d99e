"""Predictions JSONL: any system's captions with their references, one image and control a line.

    {"image": "a.jpg", "control": [[[20, 30, 200, 310]]], "prediction": "a boy ...", "references": ["A boy ."]}

``control`` is a list of region sets, each a list of boxes; it may be null or missing where there was none.
Where a system says several captions, ``predictions``, a list, best first, stands in the place of ``prediction`` or
beside it.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sct.captioner.grounded_caption import GroundedChunk
from sct.errors import InputError
from sct.regions import Box
from sct.storage.atomic import atomic_write

Boxes = tuple[tuple[tuple[float, ...], ...], ...]
"""Region sets as boxes."""
_MOST_NAMED = 10
"""Bad lines that are named beside the first."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A caption, what it was said of, and what it is judged by."""

    image: str
    control: Boxes | None
    """None where the system was not controlled."""
    prediction: str
    references: tuple[str, ...]
    predictions: tuple[str, ...] = ()
    """Several captions, best first, where there are several."""
    chunks: tuple[GroundedChunk, ...] = ()
    """Noun chunks with the place of their region set in the control, where they are known."""
    log_prob: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; what is not known is left out."""
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
        return content


def box_sides(box: Iterable[float]) -> tuple[float, ...]:
    """A box as it stands in a line: single precision has seven digits, and more would only lengthen the file."""
    return tuple(float(f"{side:.7g}") for side in box)


def write_predictions(path: Path, predictions: Iterable[Prediction]) -> None:
    """Write a file, whole or not at all."""
    with atomic_write(path) as file:
        for prediction in predictions:
            file.write(json.dumps(prediction.as_dict(), ensure_ascii=False).encode("utf-8") + b"\n")


def read_predictions(path: Path) -> list[Prediction]:
    """Read a file; all its bad lines are named by number, the first with its fault.

    Empty lines and further keys are passed over.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder: expected a file of predictions, one JSON object a line")
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: expected a file of predictions, one JSON object a line") from None
    found: list[Prediction] = []
    faults: dict[int, InputError] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                found.append(parse_prediction(line))
            except InputError as error:
                faults[number] = error
    if faults:
        first, *others = faults
        named = ", ".join(map(str, others[:_MOST_NAMED]))
        more = f" and {len(others) - _MOST_NAMED:,} more" if len(others) > _MOST_NAMED else ""
        also = f" (bad too: {named}{more})" if others else ""
        raise InputError(f"{path}, line {first}: {faults[first]}{also}") from faults[first]
    if not found:
        raise InputError(f"{path} holds no prediction: expected one JSON object a line")
    return found


def parse_prediction(line: bytes) -> Prediction:
    """One line.

    >>> parse_prediction(b'{"image": "a.jpg", "prediction": "a boy", "references": ["A boy ."]}').references
    ('A boy .',)
    """
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"not JSON ({error}): expected an object with image, control, prediction, references"
        ) from error
    if not isinstance(content, dict):
        raise InputError(
            f"a JSON {type(content).__name__}: expected an object with image, control, prediction, references"
        )
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


def gather_samples(predictions: Sequence[Prediction]) -> list[Prediction]:
    """Put lines of one image and control together as one with several predictions, in the order they came.

    The lines must have the same references.
    """
    together: dict[tuple[str, Boxes | None], Prediction] = {}
    for line in predictions:
        said = line.predictions or (line.prediction,)
        key = (line.image, line.control)
        first = together.get(key)
        if first is None:
            together[key] = replace(line, predictions=said)
        elif first.references != line.references:
            raise InputError(
                f"image {line.image!r} has two lines with one control but different references: expected the same ones"
            )
        else:
            together[key] = replace(first, predictions=first.predictions + said)
    return list(together.values())


def _text(content: dict[str, Any], name: str) -> str:
    if name not in content:
        raise InputError(f"no {name!r}: expected an object with image, control, prediction, references")
    return _checked_text(content[name], name)


def _checked_text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} is {_short(value)}: expected text")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{name} is {_short(value)}, with half a character: expected Unicode text") from error
    return value


def _texts(content: dict[str, Any], name: str) -> tuple[str, ...]:
    if name not in content:
        raise InputError(f"no {name!r}: expected an object with image, control, prediction, references")
    value = content[name]
    if not isinstance(value, list):
        raise InputError(f"{name} is {_short(value)}: expected a list of texts")
    if not value:
        raise InputError(f"{name} is empty: expected at least one text")
    return tuple(_checked_text(text, f"one of {name}") for text in value)


def _control(value: object) -> Boxes | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(members, list) for members in value):
        raise InputError(f"control is {_short(value)}: expected a list of region sets, each a list of boxes")
    return tuple(tuple(_box(box) for box in members) for members in value)


def _box(value: object) -> tuple[float, ...]:
    expected = f"control has the box {_short(value)}: expected [x1, y1, x2, y2] with x1 < x2 and y1 < y2"
    if not (isinstance(value, list) and all(type(side) in (int, float) for side in value)):
        raise InputError(expected)
    try:
        return tuple(Box.checked(value))
    except InputError as error:  # it shows all of a number of 300 digits
        raise InputError(expected) from error


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
