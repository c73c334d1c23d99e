"""Annotated images as a handful of flat arrays: what a dataset folder holds, and what its building parts hold.

Lists of different lengths lie end to end, with offsets: the words of caption c are
``word[caption_word[c] : caption_word[c + 1]]``.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Shaped
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.errors import InputError
from sct.language.vocabulary import Vocabulary
from sct.regions import Box, Region
from sct.storage.atomic import atomic_write

NO_CLASS = np.iinfo(np.uint16).max
NO_CHUNK = np.iinfo(np.uint8).max

OFFSETS = {
    "region_offsets": "region",
    "caption_offsets": "caption",
    "word_offsets": "word_id",
    "chunk_offsets": "chunk",
    "member_offsets": "member_region",
    "text_offsets": "text_bytes",
}
"""Each offset array and what it counts."""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns by name, and the strings that their numbers stand for."""

    columns: dict[str, Shaped[np.ndarray, "..."]]
    words: tuple[str, ...]
    classes: tuple[str, ...]
    splits: tuple[str, ...]
    image_ids: tuple[str, ...]
    image_files: tuple[str, ...]
    """Per image the name of its image; empty where there is none."""

    def image(self, index: int) -> AnnotatedImage:
        """One image as the record it was made of."""
        regions = [self._region(row) for row in self._rows("region_offsets", index)]
        captions = [self._caption(row) for row in self._rows("caption_offsets", index)]
        width, height = self.columns["image_size"][index].tolist()
        return AnnotatedImage(
            image_id=self.image_ids[index],
            split=self.splits[self.columns["image_split"][index]],
            width=width,
            height=height,
            regions=tuple(regions),
            captions=tuple(captions),
            file=self.image_files[index] or None,
        )

    def _rows(self, offsets: str, index: int) -> range:
        column = self.columns[offsets]
        return range(int(column[index]), int(column[index + 1]))

    def _slice(self, offsets: str, column: str, index: int) -> Shaped[np.ndarray, "..."]:
        rows = self._rows(offsets, index)
        return self.columns[column][rows.start : rows.stop]

    def _class_name(self, column: str, row: int) -> str | None:
        number = int(self.columns[column][row])
        return None if number == NO_CLASS else self.classes[number]

    def _region(self, row: int) -> Region:
        score = float(self.columns["region_score"][row])
        box = Box(*self.columns["region_box"][row].tolist())
        return Region(box, self._class_name("region_class", row), None if np.isnan(score) else score)

    def _caption(self, row: int) -> Caption:
        text = self._slice("text_offsets", "text_bytes", row).tobytes().decode("utf-8")
        words = tuple(self.words[number] for number in self._slice("word_offsets", "word_id", row))
        labels = self._slice("word_offsets", "word_chunk", row).tolist()
        chunks = [
            Chunk(self._class_name("chunk_class", chunk), tuple(self._slice("member_offsets", "member_region", chunk).tolist()))
            for chunk in self._rows("chunk_offsets", row)
        ]
        return Caption(
            text,
            words,
            tuple(None if label == NO_CHUNK else label for label in labels),
            tuple(chunks),
            auto_grounded=bool(self.columns["auto_grounded"][row]),
        )


def build_table(images: Sequence[AnnotatedImage]) -> Table:
    """Lay images out as columns; strings are numbered in order of appearance."""
    words, classes, splits = _Numbering(), _Numbering(), _Numbering()
    flat: dict[str, list[float]] = {name: [] for name in _DTYPES}
    letters = bytearray()
    lengths: dict[str, list[int]] = {name: [] for name in OFFSETS}
    boxes: list[Box] = []
    for image in images:
        flat["image_split"].append(splits.number(image.split))
        lengths["region_offsets"].append(len(image.regions))
        lengths["caption_offsets"].append(len(image.captions))
        for region in image.regions:
            boxes.append(region.box)
            flat["region_class"].append(classes.number(region.class_name) if region.class_name else NO_CLASS)
            flat["region_score"].append(np.nan if region.score is None else region.score)
        for caption in image.captions:
            if caption.chunks is None:
                raise InputError(f"image {image.image_id}: caption {caption.text!r} is not grounded yet")
            if len(caption.chunks) >= NO_CHUNK:
                raise InputError(
                    f"image {image.image_id}: a caption has {len(caption.chunks)} chunks: expected under {NO_CHUNK}"
                )
            text = caption.text.encode("utf-8")
            letters += text
            lengths["text_offsets"].append(len(text))
            lengths["word_offsets"].append(len(caption.words))
            lengths["chunk_offsets"].append(len(caption.chunks))
            flat["auto_grounded"].append(caption.auto_grounded)
            flat["word_id"] += [words.number(word) for word in caption.words]
            flat["word_chunk"] += [NO_CHUNK if label is None else label for label in caption.chunk_of_word]
            for chunk in caption.chunks:
                flat["chunk_class"].append(NO_CLASS if chunk.class_name is None else classes.number(chunk.class_name))
                flat["member_region"] += chunk.regions
                lengths["member_offsets"].append(len(chunk.regions))
    columns = {name: np.array(flat[name], dtype) for name, dtype in _DTYPES.items()}
    columns |= {name: _offsets(np.array(lengths[name], np.int64)) for name in OFFSETS}
    columns["text_bytes"] = np.frombuffer(bytes(letters), np.uint8)
    columns["region_box"] = np.array(boxes, np.float32).reshape(-1, 4)
    columns["image_size"] = np.array([(image.width, image.height) for image in images], np.float32).reshape(-1, 2)
    return Table(
        columns,
        words.strings(),
        classes.strings(),
        splits.strings(),
        tuple(image.image_id for image in images),
        tuple(image.file or "" for image in images),
    )


def merge_tables(tables: Iterable[Table], *, counted_splits: Sequence[str] = ("train",)) -> tuple[Table, Vocabulary]:
    """Lay tables end to end, and number words by how often the counted splits use them, classes by the alphabet.

    The word numbers are the ids of the returned vocabulary, which holds every word; ``Vocabulary.cut`` gives the usual
    one of frequent words.
    """
    parts = list(tables)
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(dict.fromkeys(part.words, 0))
        for word, count in zip(part.words, _word_counts(part, counted_splits), strict=True):
            counts[word] += int(count)
    vocabulary = Vocabulary.from_counts(counts, min_count=0)
    classes = tuple(sorted({name for part in parts for name in part.classes}))
    splits = tuple(
        sorted(
            {name for part in parts for name in part.splits}, key=lambda name: (name != "train", name != "val", name)
        )
    )
    if len(classes) >= NO_CLASS:
        raise InputError(f"the dataset has {len(classes)} classes: expected under {NO_CLASS}")
    class_ids = {name: number for number, name in enumerate(classes)}
    renumbered = [
        {
            **part.columns,
            "word_id": _renumber(part.columns["word_id"], [vocabulary.ids[word] for word in part.words], np.uint32),
            "region_class": _renumber(
                part.columns["region_class"], [class_ids[name] for name in part.classes], np.uint16
            ),
            "chunk_class": _renumber(
                part.columns["chunk_class"], [class_ids[name] for name in part.classes], np.uint16
            ),
            "image_split": _renumber(
                part.columns["image_split"], [splits.index(name) for name in part.splits], np.uint8
            ),
        }
        for part in parts
    ]
    columns = {
        name: _offsets(np.concatenate([np.diff(part[name]) for part in renumbered]))
        if name in OFFSETS
        else np.concatenate([part[name] for part in renumbered])
        for name in renumbered[0]
    }
    columns |= {name: _narrow(columns[name]) for name in ("word_id", "member_region")}
    image_ids = tuple(image_id for part in parts for image_id in part.image_ids)
    repeated = [image_id for image_id, count in Counter(image_ids).items() if count > 1]
    if repeated:
        raise InputError(f"image {repeated[0]!r} is in the source {image_ids.count(repeated[0])} times: expected once")
    files = tuple(file for part in parts for file in part.image_files)
    return Table(columns, vocabulary.words, classes, splits, image_ids, files), vocabulary


def save_table(table: Table, path: Path) -> None:
    """Write a table as one safetensors file, whole or not at all."""
    strings = {name: "\n".join(getattr(table, name)) for name in _STRINGS}
    blobs = {f"strings.{name}": np.frombuffer(text.encode("utf-8"), np.uint8) for name, text in strings.items()}
    with atomic_write(path) as file:
        file.write(save({**table.columns, **blobs}))


def load_table(path: Path) -> Table:
    """Read what ``save_table`` wrote."""
    try:
        with safe_open(path, framework="numpy") as file:
            columns = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: the dataset is not whole, prepare it again") from None
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is damaged ({error}): prepare the dataset again") from error
    missing = {*_DTYPES, *OFFSETS, *_OTHERS, *(f"strings.{name}" for name in _STRINGS)} - columns.keys()
    if missing:
        raise InputError(f"{path} lacks {min(missing)}: it is no dataset of this version, prepare it again")

    def strings(name: str) -> tuple[str, ...]:
        text = columns.pop(f"strings.{name}").tobytes().decode("utf-8")
        return tuple(text.split("\n")) if text else ()

    words, classes, splits, image_ids, files = map(strings, _STRINGS)
    return Table(columns, words, classes, splits, image_ids, files or ("",) * len(image_ids))


_DTYPES: dict[str, type[np.generic]] = {
    "image_split": np.uint8,
    "region_class": np.uint16,
    "region_score": np.float16,
    "auto_grounded": np.bool_,
    "word_id": np.uint32,
    "word_chunk": np.uint8,
    "chunk_class": np.uint16,
    "member_region": np.uint16,
}
_OTHERS = ("text_bytes", "region_box", "image_size")
_STRINGS = ("words", "classes", "splits", "image_ids", "image_files")


class _Numbering:
    """Numbers strings in order of appearance."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, string: str) -> int:
        if "\n" in string:
            raise InputError(f"{string!r} holds a line break: expected a name of one line")
        return self._numbers.setdefault(string, len(self._numbers))

    def strings(self) -> tuple[str, ...]:
        return tuple(self._numbers)


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)


def _narrow(column: np.ndarray) -> np.ndarray:
    """Whole numbers in the smallest type that holds them: a dataset has to travel."""
    return column.astype(np.min_scalar_type(int(column.max(initial=0))))


def _renumber(column: np.ndarray, numbers: Sequence[int], dtype: type[np.unsignedinteger]) -> np.ndarray:
    """Replace each number by another; NO_CLASS stays."""
    lookup = np.full(max(len(numbers), NO_CLASS + 1), NO_CLASS, np.uint32)
    lookup[: len(numbers)] = numbers
    renumbered: np.ndarray = lookup[column].astype(dtype)
    return renumbered


def _word_counts(part: Table, counted_splits: Sequence[str]) -> np.ndarray:
    """How often each word of a table stands in captions of the counted splits."""
    columns = part.columns
    counted = np.isin(
        columns["image_split"], [part.splits.index(name) for name in counted_splits if name in part.splits]
    )
    per_caption = np.repeat(counted, np.diff(columns["caption_offsets"]))
    per_word = np.repeat(per_caption, np.diff(columns["word_offsets"]))
    return np.bincount(columns["word_id"][per_word], minlength=len(part.words))
