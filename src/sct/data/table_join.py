"""Join tables to one, in two passes over them: only one of them, and all strings, are in memory.

The first pass counts words and rows, from which the ids and types of all columns follow; the second writes the columns.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped

from sct.data.table import NO_LEMMA, OFFSETS, SCALARS, STRINGS, Table, check_num_classes, check_num_splits, offset_dtype
from sct.data.table_file import TABLE_FORMAT, encode_strings, load_table
from sct.errors import InputError
from sct.language.vocabulary import Vocabulary
from sct.limits import MAX_TABLE_BYTES
from sct.regions.records import NO_CLASS
from sct.storage.tensor_writer import TensorSpec, map_tensors, stream_tensors

_ROW_SHAPES = {"image_size": (2,), "region_box": (4,)}


class Piece(NamedTuple):
    """Next rows of a column of the joined table."""

    column: str
    rows: Shaped[np.ndarray, "rows ..."]


class TableJoin:
    """Strings, ids and column types of the table that joins others.

    Word ids become those of ``vocabulary``, class and lemma ids alphabetical. The vocabulary holds every word, ordered
    by its frequency in ``counted_splits``; ``Vocabulary.with_min_count`` restricts it to frequent words.
    """

    def __init__(self, tables: Iterable[Table], *, counted_splits: Sequence[str] = ("train",)) -> None:
        """First pass over the tables."""
        words: Counter[str] = Counter()
        classes: set[str] = set()
        lemmas: set[str] = set()
        splits: set[str] = set()
        image_ids: list[str] = []
        image_files: list[str] = []
        self._num_rows: Counter[str] = Counter()
        self._ends: Counter[str] = Counter()
        self._largest_member = 0
        for table in tables:
            words.update(_count_words(table, counted_splits))
            classes.update(table.classes)
            lemmas.update(table.lemmas)
            splits.update(table.splits)
            image_ids += table.image_ids
            image_files += table.image_files
            for name, column in table.columns.items():
                self._num_rows[name] += len(column) - (name in OFFSETS)
            for name in OFFSETS:
                self._ends[name] += int(table.columns[name][-1])
            self._largest_member = max(self._largest_member, int(table.columns["member_region"].max(initial=0)))
        _check_unique(image_ids)
        check_num_classes(len(classes))
        check_num_splits(len(splits))
        self.vocabulary = Vocabulary.from_counts(words, min_count=0)
        self._strings = {
            "words": self.vocabulary.words,
            "classes": tuple(sorted(classes)),
            "lemmas": tuple(sorted(lemmas)),
            "splits": tuple(sorted(splits, key=_split_order)),
            "image_ids": tuple(image_ids),
            "image_files": tuple(image_files),
        }

    def build(self, tables: Iterable[Table]) -> Table:
        """Second pass: join the tables in memory."""
        columns = {name: np.empty(spec.shape, spec.dtype) for name, spec in self.column_specs().items()}
        num_rows = dict.fromkeys(columns, 0)
        for name, rows in self.pieces(tables):
            columns[name][num_rows[name] : num_rows[name] + len(rows)] = rows
            num_rows[name] += len(rows)
        return Table(columns, **self._strings)

    def save(self, tables: Iterable[Table], path: Path) -> Table:
        """Second pass: write the file that ``save_table`` would; returns the table with memory-mapped columns."""
        strings = {f"strings.{name}": encode_strings(self._strings[name]) for name in STRINGS}
        specs = self.column_specs() | {name: TensorSpec(text.dtype, text.shape) for name, text in strings.items()}
        if (num_bytes := sum(spec.num_bytes for spec in specs.values())) > MAX_TABLE_BYTES:
            raise InputError(f"got tables of {num_bytes:,} bytes, expected at most {MAX_TABLE_BYTES:,}: join fewer")
        with stream_tensors(TABLE_FORMAT, path, specs) as writer:
            for name, rows in self.pieces(tables):
                writer.append(name, rows)
            for name, text in strings.items():
                writer.append(name, text)
        mapped = map_tensors(TABLE_FORMAT, path, specs)
        return Table({name: mapped[name] for name in self.column_specs()}, **self._strings)

    def column_specs(self) -> dict[str, TensorSpec]:
        """Type and shape of each column of the joined table."""
        dtypes = {name: np.dtype(dtype) for name, dtype in SCALARS.items()}
        dtypes |= dict.fromkeys(_ROW_SHAPES, np.dtype(np.float32)) | {"text_bytes": np.dtype(np.uint8)}
        dtypes["word_id"] = np.min_scalar_type(len(self.vocabulary) - 1)
        dtypes["member_region"] = np.min_scalar_type(self._largest_member)
        shapes = {name: (self._num_rows[name], *_ROW_SHAPES.get(name, ())) for name in dtypes}
        dtypes |= {name: offset_dtype(self._ends[name]) for name in OFFSETS}
        shapes |= {name: (self._num_rows[name] + 1,) for name in OFFSETS}
        return {name: TensorSpec(dtype, shapes[name]) for name, dtype in dtypes.items()}

    def pieces(self, tables: Iterable[Table]) -> Iterator[Piece]:
        """Columns of each table in turn, with the ids and offsets of the joined one."""
        ids = {
            name: {string: index for index, string in enumerate(self._strings[name])}
            for name in ("classes", "lemmas", "splits")
        }
        ends = dict.fromkeys(OFFSETS, 0)
        yield from (Piece(name, np.zeros(1, np.uint32)) for name in OFFSETS)
        for table in tables:
            columns = table.columns
            class_ids = [ids["classes"][name] for name in table.classes]
            split_ids = [ids["splits"][name] for name in table.splits]
            yield Piece("word_id", _remap(columns["word_id"], self.vocabulary.encode(table.words)))
            yield Piece("region_class", _remap(columns["region_class"], class_ids))
            yield Piece("chunk_class", _remap(columns["chunk_class"], class_ids))
            yield Piece("chunk_lemma", _remap_lemmas(table, ids["lemmas"]))
            yield Piece("image_split", _remap(columns["image_split"], split_ids))
            for name in ("region_score", "auto_grounded", "word_chunk", "member_region", *_ROW_SHAPES, "text_bytes"):
                yield Piece(name, columns[name])
            for name in OFFSETS:
                yield Piece(name, columns[name][1:].astype(np.int64) + ends[name])
                ends[name] += int(columns[name][-1])


def merge_tables(tables: Iterable[Table], *, counted_splits: Sequence[str] = ("train",)) -> tuple[Table, Vocabulary]:
    """Join tables in memory; returns the joined table and its vocabulary, as in ``TableJoin``."""
    shards = list(tables)
    join = TableJoin(shards, counted_splits=counted_splits)
    return join.build(shards), join.vocabulary


def join_table_files(
    files: Sequence[Path], out: Path, *, counted_splits: Sequence[str] = ("train",)
) -> tuple[Table, Vocabulary]:
    """Join table files to one, of which only one at a time is in memory; the columns returned are memory-mapped."""
    join = TableJoin(map(load_table, files), counted_splits=counted_splits)
    return join.save(map(load_table, files), out), join.vocabulary


def _split_order(name: str) -> tuple[bool, bool, str]:
    return name != "train", name != "val", name


def _check_unique(image_ids: Sequence[str]) -> None:
    if len(set(image_ids)) < len(image_ids):
        repeated, times = next((name, count) for name, count in Counter(image_ids).items() if count > 1)
        raise InputError(f"image {repeated!r} is in the source {times} times: expected once")


def _remap(column: np.ndarray, ids: Sequence[int]) -> np.ndarray:
    """Replace each id i by ``ids[i]``; NO_CLASS stays."""
    lookup = np.full(max(len(ids), NO_CLASS + 1), NO_CLASS, np.uint32)
    lookup[: len(ids)] = ids
    remapped: np.ndarray = lookup[column]
    return remapped


def _remap_lemmas(table: Table, lemma_ids: Mapping[str, int]) -> np.ndarray:
    lookup = np.array([*map(lemma_ids.__getitem__, table.lemmas), NO_LEMMA], np.uint32)
    remapped: np.ndarray = lookup[np.minimum(table.columns["chunk_lemma"], len(table.lemmas))]
    return remapped


def _count_words(table: Table, counted_splits: Sequence[str]) -> dict[str, int]:
    """Count each word of a table in the captions of ``counted_splits``; words of other splits count 0."""
    columns = table.columns
    split_ids = [table.splits.index(name) for name in counted_splits if name in table.splits]
    is_counted = np.isin(columns["image_split"], split_ids)
    per_caption = np.repeat(is_counted, np.diff(columns["caption_offsets"]))
    per_word = np.repeat(per_caption, np.diff(columns["word_offsets"]))
    occurrences = np.bincount(columns["word_id"][per_word], minlength=len(table.words))
    return dict(zip(table.words, occurrences.tolist(), strict=True))
