"""Where the captions of a table belong, and what each of them mentions: what every later table is made of."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from sct.data.table import NO_CHUNK, Table
from sct.errors import InputError


class Mentions(NamedTuple):
    """Every mention of a chunk, a run of words in it, in the order of the words.

    Words between chunks end a run: "man and man" are two mentions of one chunk, which reference mode has.
    """

    caption: Int64[np.ndarray, " mentions"]
    """Row of the caption."""
    chunk: Int64[np.ndarray, " mentions"]
    """Row of the chunk."""


def find_mentions(table: Table) -> Mentions:
    """All mentions of a table."""
    columns = table.columns
    caption = caption_of_word(table)
    label = columns["word_chunk"].astype(np.int64)
    is_start = label != NO_CHUNK
    is_start[1:] &= (label[1:] != label[:-1]) | (caption[1:] != caption[:-1])
    mentioned = caption[is_start]
    return Mentions(mentioned, columns["chunk_offsets"][mentioned].astype(np.int64) + label[is_start])


def caption_of_word(table: Table) -> Int64[np.ndarray, " words"]:
    """Row of the caption of each word."""
    return np.repeat(np.arange(len(table.columns["auto_grounded"])), np.diff(table.columns["word_offsets"]))


def image_of_caption(table: Table) -> Int64[np.ndarray, " captions"]:
    """Row of the image of each caption."""
    return np.repeat(np.arange(len(table.image_ids)), np.diff(table.columns["caption_offsets"]))


def region_of_member(table: Table) -> Int64[np.ndarray, " members"]:
    """Row of the region of each member of a chunk's region set."""
    columns = table.columns
    image_of_chunk = np.repeat(image_of_caption(table), np.diff(columns["chunk_offsets"]))
    first = columns["region_offsets"].astype(np.int64)[image_of_chunk]
    rows: np.ndarray = columns["member_region"] + np.repeat(first, np.diff(columns["member_offsets"]))
    return rows


def split_of_caption(table: Table) -> np.ndarray:
    """Number of the split of each caption."""
    return np.repeat(table.columns["image_split"], np.diff(table.columns["caption_offsets"]))


def split_index(table: Table, split: str) -> int:
    """Number of a split by its name."""
    if split not in table.splits:
        raise InputError(f"the dataset has no split {split!r}: expected one of {', '.join(table.splits)}")
    return table.splits.index(split)
