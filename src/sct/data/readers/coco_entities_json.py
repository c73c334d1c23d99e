"""The two files of COCO Entities, one caption's entry at a time.

``coco_entities.json``, which the authors train with: image id -> caption -> list of [chunk, class].
``coco_entities_release.json``: image id -> caption -> ``det_sequences``, ``noun_chunks``, ``detections``, ``split``;
its captions and chunks are already cleaned of punctuation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sct.data.readers.json_checks import field_of, list_of, mapping_of, text_of
from sct.data.readers.karpathy import split_named
from sct.errors import InputError
from sct.regions import Box

UNASSOCIATED = "_"
"""Stands for the class of a chunk that no detection could be found for."""


@dataclass(frozen=True, slots=True)
class NamedChunk:
    """A noun chunk as the file has it."""

    text: str
    class_name: str


@dataclass(frozen=True, slots=True)
class ListedDetection:
    """A detection that the release file lists: its number in the detector's output, and its box."""

    number: int
    box: Box


@dataclass(frozen=True, slots=True)
class Release:
    """What only the release file tells of a caption."""

    labels: tuple[str | None, ...]
    """Per place of the caption, split on single spaces, its class."""
    detections: Mapping[str, tuple[ListedDetection, ...]]
    split: str


@dataclass(frozen=True, slots=True)
class CaptionEntry:
    """A caption of either file."""

    key: str
    chunks: tuple[NamedChunk, ...]
    release: Release | None = None


def parse_caption(key: str, value: object) -> CaptionEntry:
    """Check one caption's entry.

    >>> parse_caption("a dog", [["a dog", "dog"]]).chunks
    (NamedChunk(text='a dog', class_name='dog'),)
    """
    if not isinstance(value, dict):
        return CaptionEntry(key, _chunks_of(value))
    entry = mapping_of(value, "the caption")
    labels = list_of(field_of(entry, "det_sequences", "the caption"), "'det_sequences'")
    num_places = len(key.split(" "))
    if len(labels) != num_places:
        raise InputError(f"'det_sequences' has {len(labels)} classes for {num_places} words: expected one for each")
    listed = mapping_of(field_of(entry, "detections", "the caption"), "'detections'")
    return CaptionEntry(
        key,
        _chunks_of(field_of(entry, "noun_chunks", "the caption")),
        Release(
            labels=tuple(None if label is None else text_of(label, "a class of 'det_sequences'") for label in labels),
            detections={
                class_name: tuple(
                    sorted(
                        (_detection_of(item) for item in list_of(items, f"'detections' of {class_name!r}")),
                        key=lambda detection: detection.number,
                    )
                )
                for class_name, items in listed.items()
            },
            split=split_named(field_of(entry, "split", "the caption")),
        ),
    )


def _chunks_of(value: object) -> tuple[NamedChunk, ...]:
    chunks = []
    for pair in list_of(value, "the list of chunks"):
        match pair:
            case [str(text), str(class_name)]:
                chunks.append(NamedChunk(text, class_name))
            case _:
                raise InputError(f"chunk {pair!r} is not a pair: expected [chunk, class]")
    return tuple(chunks)


def _detection_of(value: Any) -> ListedDetection:
    match value:
        case [int(number), [_, _, _, _] as corners] if number >= 0 and all(isinstance(x, int | float) for x in corners):
            return ListedDetection(number, Box.of_pixels(corners))
        case _:
            raise InputError(f"detection {value!r} is malformed: expected [id, [x1, y1, x2, y2]]")
