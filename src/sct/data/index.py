"""Row lookups in a table: captions, images, splits and regions of words, mentions and members."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from sct.data.table import NO_CHUNK, Table
from sct.errors import InputError


class Mentions(NamedTuple):
    """Mentions of chunks, in order of the words. A mention is a run of words of one chunk.

    In reference mode a chunk may have several, separated by other words: "man and man".
    """

    caption: Int64[np.ndarray, " mentions"]
    """Row of the caption."""
    chunk: Int64[np.ndarray, " mentions"]
    """Row of the chunk."""


def find_mentions(table: Table) -> Mentions:
    """Return all mentions of a table."""
    columns = table.columns
    caption = caption_of_word(table)
    label = columns["word_chunk"].astype(np.int64)
    is_start = label != NO_CHUNK
    is_start[1:] &= (label[1:] != label[:-1]) | (caption[1:] != caption[:-1])
    mentioned = caption[is_start]
    return Mentions(mentioned, columns["chunk_offsets"][mentioned].astype(np.int64) + label[is_start])


def caption_of_word(table: Table) -> Int64[np.ndarray, " words"]:
    """Return the caption row of each word."""
    return np.repeat(np.arange(len(table.columns["auto_grounded"])), np.diff(table.columns["word_offsets"]))


def image_of_caption(table: Table) -> Int64[np.ndarray, " captions"]:
    """Return the image row of each caption."""
    return np.repeat(np.arange(len(table.image_ids)), np.diff(table.columns["caption_offsets"]))


def region_of_member(table: Table) -> Int64[np.ndarray, " members"]:
    """Return the region row of each member of a chunk's region set."""
    columns = table.columns
    image_of_chunk = np.repeat(image_of_caption(table), np.diff(columns["chunk_offsets"]))
    first = columns["region_offsets"].astype(np.int64)[image_of_chunk]
    rows: np.ndarray = columns["member_region"] + np.repeat(first, np.diff(columns["member_offsets"]))
    return rows


def split_of_caption(table: Table) -> np.ndarray:
    """Return the split index of each caption."""
    return np.repeat(table.columns["image_split"], np.diff(table.columns["caption_offsets"]))


def split_index(table: Table, split: str) -> int:
    """Return the index of a split."""
    if split not in table.splits:
        raise InputError(f"the dataset has no split {split!r}: expected one of {', '.join(table.splits)}")
    return table.splits.index(split)


def caption_text(table: Table, caption: int) -> str:
    """Return the text of a caption row, as written."""
    first, last = table.columns["text_offsets"][caption : caption + 2].tolist()
    return table.columns["text_bytes"][first:last].tobytes().decode("utf-8")
