"""Entries of the two annotation files of COCO Entities, one caption at a time.

``coco_entities.json``, which the authors train with: image id -> caption -> list of [chunk, class].
``coco_entities_release.json``: image id -> caption -> ``det_sequences``, ``noun_chunks``, ``detections``, ``split``;
its captions and chunks have no punctuation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sct.data.readers.json_checks import as_list, as_object, as_text, get_field
from sct.data.readers.karpathy import parse_split
from sct.errors import InputError, format_value
from sct.limits import MAX_CHUNKS
from sct.regions import Box

UNASSOCIATED = "_"
"""Class of a chunk without an associated detection."""


@dataclass(frozen=True, slots=True)
class AnnotatedChunk:
    """A noun chunk as in the file."""

    text: str
    class_name: str


@dataclass(frozen=True, slots=True)
class ListedDetection:
    """A detection of the release file: its index in the detector's output, and its box."""

    index: int
    box: Box


@dataclass(frozen=True, slots=True)
class ReleaseFields:
    """Fields of a caption that only the release file has."""

    labels: tuple[str | None, ...]
    """Class of each place of the caption, split on single spaces."""
    detections: Mapping[str, tuple[ListedDetection, ...]]
    """By class."""
    split: str


@dataclass(frozen=True, slots=True)
class CaptionEntry:
    """A caption of either file."""

    key: str
    chunks: tuple[AnnotatedChunk, ...]
    release: ReleaseFields | None = None


def parse_caption(key: str, value: object) -> CaptionEntry:
    """Parse the entry of one caption.

    >>> parse_caption("a dog", [["a dog", "dog"]]).chunks
    (AnnotatedChunk(text='a dog', class_name='dog'),)
    """
    if not isinstance(value, dict):
        return CaptionEntry(key, _parse_chunks(value))
    entry = as_object(value, "the caption")
    labels = as_list(get_field(entry, "det_sequences", "the caption"), "'det_sequences'")
    num_places = len(key.split(" "))
    if len(labels) != num_places:
        raise InputError(f"'det_sequences' has {len(labels)} classes for {num_places} words: expected one per word")
    listed = as_object(get_field(entry, "detections", "the caption"), "'detections'")
    return CaptionEntry(
        key,
        _parse_chunks(get_field(entry, "noun_chunks", "the caption")),
        ReleaseFields(
            labels=tuple(None if label is None else as_text(label, "a class of 'det_sequences'") for label in labels),
            detections={
                class_name: tuple(
                    sorted(
                        (_parse_detection(item) for item in as_list(items, f"'detections' of {class_name!r}")),
                        key=lambda detection: detection.index,
                    )
                )
                for class_name, items in listed.items()
            },
            split=parse_split(get_field(entry, "split", "the caption")),
        ),
    )


def _parse_chunks(value: object) -> tuple[AnnotatedChunk, ...]:
    chunks = []
    pairs = as_list(value, "the list of chunks")
    if len(pairs) > MAX_CHUNKS:
        raise InputError(f"the caption has {len(pairs):,} chunks: expected at most {MAX_CHUNKS}")
    for pair in pairs:
        match pair:
            case [str(text), str(class_name)]:
                chunks.append(AnnotatedChunk(text, class_name))
            case _:
                raise InputError(f"got chunk {format_value(pair)}, expected [chunk, class]")
    return tuple(chunks)


def _parse_detection(value: Any) -> ListedDetection:
    match value:
        case [int(index), [_, _, _, _] as corners] if index >= 0 and all(
            type(side) in (int, float) for side in corners
        ):
            return ListedDetection(index, Box.from_inclusive_corners(corners))
        case _:
            raise InputError(f"got detection {format_value(value)}, expected [index, [x1, y1, x2, y2]]")
