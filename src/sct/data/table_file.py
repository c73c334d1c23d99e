"""Save and load tables; a damaged file is an ``InputError``, whatever its bytes are."""

import codecs
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped, UInt8

from sct.data.table import NO_CHUNK, NO_LEMMA, OFFSETS, STRINGS, Table
from sct.limits import MAX_COORDINATE, MAX_TABLE_BYTES
from sct.regions.records import NO_CLASS
from sct.storage.artifacts import ArtifactFormat

TABLE_FORMAT = ArtifactFormat("sct caption table", "prepare the dataset again", version=2)


class _Column(NamedTuple):
    rows: str
    """What it has one row for."""
    dtypes: str
    """Character codes of the types that it may have."""
    row_shape: tuple[int, ...] = ()


_COLUMNS = {
    "image_split": _Column("images", "B"),
    "image_size": _Column("images", "f", (2,)),
    "region_class": _Column("regions", "H"),
    "region_score": _Column("regions", "e"),
    "region_box": _Column("regions", "f", (4,)),
    "auto_grounded": _Column("captions", "?"),
    "word_id": _Column("words", "BHI"),
    "word_chunk": _Column("words", "B"),
    "chunk_class": _Column("chunks", "H"),
    "chunk_lemma": _Column("chunks", "I"),
    "member_region": _Column("members", "BHI"),
    "text_bytes": _Column("text_bytes", "B"),
}
_OFFSET_DTYPES = (np.dtype(np.uint32), np.dtype(np.int64))
"""See ``sct.data.table.offset_dtype``."""
_BLOCK = 1 << 20


def save_table(table: Table, path: Path) -> None:
    """Write a table atomically as a safetensors file."""
    strings = {f"strings.{name}": encode_strings(getattr(table, name)) for name in STRINGS}
    TABLE_FORMAT.save_tensors(path, {**table.columns, **strings})


def encode_strings(strings: Iterable[str]) -> UInt8[np.ndarray, " bytes"]:
    """Return the UTF-8 bytes of strings, one per line."""
    return np.frombuffer("\n".join(strings).encode("utf-8"), np.uint8)


def load_table(path: Path) -> Table:
    """Read a file written by ``save_table``."""
    tensors = TABLE_FORMAT.load_tensors(path, max_bytes=MAX_TABLE_BYTES).tensors
    missing = {*_COLUMNS, *OFFSETS, *(f"strings.{name}" for name in STRINGS)} - tensors.keys()
    if missing:
        raise TABLE_FORMAT.damaged(path, f"it has no {min(missing)}")

    def strings(name: str) -> tuple[str, ...]:
        try:
            text = tensors[f"strings.{name}"].tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise TABLE_FORMAT.damaged(path, f"strings.{name} are not UTF-8: {error.reason}") from error
        return tuple(text.split("\n")) if text else ()

    words, classes, lemmas, splits, image_ids, image_files = map(strings, STRINGS)
    columns = {name: tensors[name] for name in (*_COLUMNS, *OFFSETS)}
    table = Table(columns, words, classes, lemmas, splits, image_ids, image_files or ("",) * len(image_ids))
    if damage := _find_damage(table):
        raise TABLE_FORMAT.damaged(path, damage)
    return table


def _find_damage(table: Table) -> str | None:
    """First inconsistency of a table that somebody may have altered; None if every row can be read."""
    return _find_wrong_shape(table) or _find_wrong_offset(table) or _find_wrong_value(table)


def _find_wrong_shape(table: Table) -> str | None:
    if len(table.image_files) != len(table.image_ids):
        return f"it has {len(table.image_ids)} image ids and {len(table.image_files)} image files"
    num_rows = {"images": len(table.image_ids)}
    for name, (rows, dtypes, row_shape) in _COLUMNS.items():
        column = table.columns[name]
        expected = (num_rows.setdefault(rows, len(column) if column.ndim else 0), *row_shape)
        if column.dtype.char not in dtypes or column.shape != expected:
            return f"{name} has shape {column.shape} and type {column.dtype}"
    for name, (owners, _) in OFFSETS.items():
        column = table.columns[name]
        if column.dtype not in _OFFSET_DTYPES or column.shape != (num_rows[owners] + 1,):
            return f"{name} has shape {column.shape} and type {column.dtype}"
    return None


def _find_wrong_offset(table: Table) -> str | None:
    first_column = {column.rows: name for name, column in reversed(_COLUMNS.items())}
    for name, (_, items) in OFFSETS.items():
        column = table.columns[name]
        if column[0] != 0 or column[-1] != len(table.columns[first_column[items]]):
            return f"{name} does not span all {items}"
        if (column[1:] < column[:-1]).any():
            return f"{name} falls"
    return None


def _find_wrong_value(table: Table) -> str | None:
    columns = table.columns
    member_offsets, chunk_offsets, caption_offsets = (
        columns[name].astype(np.int64) for name in ("member_offsets", "chunk_offsets", "caption_offsets")
    )
    num_chunks = np.minimum(np.diff(chunk_offsets), NO_CHUNK).astype(np.uint8)
    labels = columns["word_chunk"] + np.uint8(1)  # NO_CHUNK becomes 0
    num_regions = np.diff(columns["region_offsets"])
    members_of_image = member_offsets[chunk_offsets[caption_offsets]]
    scores = columns["region_score"].astype(np.float32)
    (x1, y1, x2, y2), sizes = columns["region_box"].T, columns["image_size"]
    is_valid = {
        "strings": not any("" in getattr(table, name) for name in STRINGS if name != "image_files"),
        "image_split": (columns["image_split"] < len(table.splits)).all(),
        "word_id": (columns["word_id"] < len(table.words)).all(),
        "region_class": _is_id(columns["region_class"], table.classes, NO_CLASS),
        "chunk_class": _is_id(columns["chunk_class"], table.classes, NO_CLASS),
        "chunk_lemma": _is_id(columns["chunk_lemma"], table.lemmas, NO_LEMMA),
        "word_chunk": (labels <= np.repeat(num_chunks, np.diff(columns["word_offsets"]))).all(),
        "member_region": (columns["member_region"] < np.repeat(num_regions, np.diff(members_of_image))).all(),
        "region_score": (((scores >= 0) & (scores <= 1)) | np.isnan(scores)).all(),
        "region_box": (x1 < x2).all() and (y1 < y2).all() and _is_coordinate(columns["region_box"]),
        "image_size": sizes.min(initial=1) >= 1 and _is_coordinate(sizes),
        "text_bytes": _is_text(columns["text_bytes"], columns["text_offsets"]),
    }
    wrong = next((name for name, valid in is_valid.items() if not valid), None)
    return f"{wrong} has values out of range" if wrong else None


def _is_id(column: Shaped[np.ndarray, " rows"], strings: Sequence[str], none: int) -> bool:
    return bool(((column < len(strings)) | (column == none)).all())


def _is_coordinate(column: Shaped[np.ndarray, "..."]) -> bool:
    """Whether all values can be coordinates; NaN cannot."""
    return bool(column.min(initial=0) >= -MAX_COORDINATE and column.max(initial=0) <= MAX_COORDINATE)


def _is_text(content: Shaped[np.ndarray, " bytes"], offsets: Shaped[np.ndarray, " ends"]) -> bool:
    """Whether the bytes are UTF-8 and each slice begins with a character."""
    starts = offsets[:-1][offsets[:-1] < len(content)]
    if (content[starts] & 0xC0 == 0x80).any():
        return False
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(content), _BLOCK):  # a character may take four bytes in memory
            decoder.decode(content[start : start + _BLOCK].tobytes())
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
