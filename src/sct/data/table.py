"""Annotated images as flat arrays, the content of a dataset folder and of its shards.

Lists of different lengths are concatenated and indexed by offsets: the words of caption c are
``word_id[word_offsets[c] : word_offsets[c + 1]]``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Shaped

from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.errors import InputError
from sct.regions import Box, Region
from sct.regions.records import NO_CLASS

TRAINING_SPLIT, VALIDATION_SPLIT = "train", "val"
NO_CHUNK = np.iinfo(np.uint8).max
"""Chunk index of words outside chunks."""
NO_LEMMA = np.iinfo(np.uint32).max
"""Lemma id of chunks without a lemma."""
MAX_SPLITS = np.iinfo(np.uint8).max + 1

OFFSETS = {
    "region_offsets": ("images", "regions"),
    "caption_offsets": ("images", "captions"),
    "word_offsets": ("captions", "words"),
    "chunk_offsets": ("captions", "chunks"),
    "member_offsets": ("chunks", "members"),
    "text_offsets": ("captions", "text_bytes"),
}
"""Columns of offsets: what has a slice, and of what. Members are the regions of a chunk's region set."""
SCALARS: dict[str, type[np.generic]] = {
    "image_split": np.uint8,
    "region_class": np.uint16,
    "region_score": np.float16,  # NaN without a score
    "auto_grounded": np.bool_,  # per caption
    "word_id": np.uint32,
    "word_chunk": np.uint8,  # index within the caption
    "chunk_class": np.uint16,
    "chunk_lemma": np.uint32,
    "member_region": np.uint16,  # index within the image
}
"""Types of columns with a number per row."""
STRINGS = ("words", "classes", "lemmas", "splits", "image_ids", "image_files")


@dataclass(frozen=True, slots=True)
class Table:
    """Columns by name, and the strings that their ids refer to."""

    columns: dict[str, Shaped[np.ndarray, "..."]]
    words: tuple[str, ...]
    classes: tuple[str, ...]
    lemmas: tuple[str, ...]
    splits: tuple[str, ...]
    image_ids: tuple[str, ...]
    image_files: tuple[str, ...]
    """File name of each image; empty if unknown."""

    def image(self, index: int) -> AnnotatedImage:
        """Return an image as a record."""
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
        class_id = int(self.columns[column][row])
        return None if class_id == NO_CLASS else self.classes[class_id]

    def _region(self, row: int) -> Region:
        score = float(self.columns["region_score"][row])
        box = Box(*self.columns["region_box"][row].tolist())
        return Region(box, self._class_name("region_class", row), None if np.isnan(score) else score)

    def _chunk(self, row: int) -> Chunk:
        members = self._slice("member_offsets", "member_region", row)
        lemma_id = int(self.columns["chunk_lemma"][row])
        lemma = None if lemma_id == NO_LEMMA else self.lemmas[lemma_id]
        return Chunk(self._class_name("chunk_class", row), tuple(members.tolist()), lemma)

    def _caption(self, row: int) -> Caption:
        text = self._slice("text_offsets", "text_bytes", row).tobytes().decode("utf-8")
        words = tuple(self.words[word] for word in self._slice("word_offsets", "word_id", row))
        labels = self._slice("word_offsets", "word_chunk", row).tolist()
        return Caption(
            text,
            words,
            tuple(None if label == NO_CHUNK else label for label in labels),
            tuple(self._chunk(chunk) for chunk in self._rows("chunk_offsets", row)),
            auto_grounded=bool(self.columns["auto_grounded"][row]),
        )


def build_table(images: Sequence[AnnotatedImage]) -> Table:
    """Convert images to a table; ids are assigned in order of appearance."""
    words, classes, lemmas, splits = _StringIndex(), _StringIndex(), _StringIndex(), _StringIndex()
    flat: dict[str, list[float]] = {name: [] for name in SCALARS}
    text_bytes = bytearray()
    lengths: dict[str, list[int]] = {name: [] for name in OFFSETS}
    boxes: list[Box] = []
    for image in images:
        flat["image_split"].append(splits.id(image.split))
        lengths["region_offsets"].append(len(image.regions))
        lengths["caption_offsets"].append(len(image.captions))
        for region in image.regions:
            boxes.append(region.box)
            flat["region_class"].append(classes.id(region.class_name) if region.class_name else NO_CLASS)
            flat["region_score"].append(np.nan if region.score is None else region.score)
        for caption in image.captions:
            if caption.chunks is None:
                raise InputError(f"image {image.image_id}: caption {caption.text!r} is not grounded: ground it first")
            if len(caption.chunks) >= NO_CHUNK:
                raise InputError(
                    f"image {image.image_id}: got a caption with {len(caption.chunks)} chunks, expected fewer than "
                    f"{NO_CHUNK}"
                )
            text = caption.text.encode("utf-8")
            text_bytes += text
            lengths["text_offsets"].append(len(text))
            lengths["word_offsets"].append(len(caption.words))
            lengths["chunk_offsets"].append(len(caption.chunks))
            flat["auto_grounded"].append(caption.auto_grounded)
            flat["word_id"] += [words.id(word) for word in caption.words]
            flat["word_chunk"] += [NO_CHUNK if label is None else label for label in caption.chunk_of_word]
            for chunk in caption.chunks:
                flat["chunk_class"].append(NO_CLASS if chunk.class_name is None else classes.id(chunk.class_name))
                flat["chunk_lemma"].append(NO_LEMMA if chunk.lemma is None else lemmas.id(chunk.lemma))
                flat["member_region"] += chunk.regions
                lengths["member_offsets"].append(len(chunk.regions))
    check_num_classes(len(classes.strings()))
    check_num_splits(len(splits.strings()))
    columns = {name: np.array(flat[name], dtype) for name, dtype in SCALARS.items()}
    columns |= {name: _offsets(np.array(lengths[name], np.int64)) for name in OFFSETS}
    columns["text_bytes"] = np.frombuffer(bytes(text_bytes), np.uint8)
    columns["region_box"] = np.array(boxes, np.float32).reshape(-1, 4)
    columns["image_size"] = np.array([(image.width, image.height) for image in images], np.float32).reshape(-1, 2)
    return Table(
        columns,
        words.strings(),
        classes.strings(),
        lemmas.strings(),
        splits.strings(),
        tuple(image.image_id for image in images),
        tuple(image.file or "" for image in images),
    )


def check_num_classes(num_classes: int) -> None:
    """Raise if there are more classes than ids."""
    if num_classes >= NO_CLASS:
        raise InputError(f"got {num_classes} classes, expected fewer than {NO_CLASS}")


def check_num_splits(num_splits: int) -> None:
    """Raise if there are more splits than ids."""
    if num_splits > MAX_SPLITS:
        raise InputError(f"got {num_splits} splits, expected at most {MAX_SPLITS}: name files by their splits")


class _StringIndex:
    """Assigns ids to strings in order of appearance."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def id(self, string: str) -> int:
        if "\n" in string:
            raise InputError(f"got the name {string!r}, expected one without line breaks")
        return self._ids.setdefault(string, len(self._ids))

    def strings(self) -> tuple[str, ...]:
        return tuple(self._ids)


def _offsets(lengths: np.ndarray) -> np.ndarray:
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return offsets.astype(offset_dtype(int(offsets[-1])))


def offset_dtype(end: int) -> np.dtype[np.generic]:
    """Type of offsets up to ``end``: uint32, or int64 if that is too small.

    Not uint64: ``np.repeat`` refuses it, and a sum of it and int64 is float64, which skips integers past 2**53.

    >>> offset_dtype(4_294_967_295), offset_dtype(4_294_967_296)
    (dtype('uint32'), dtype('int64'))
    """
    return np.dtype(np.uint32 if end <= np.iinfo(np.uint32).max else np.int64)
