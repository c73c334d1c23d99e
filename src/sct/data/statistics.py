"""The paper's Table 1 for any dataset: captions, noun chunks, chunks per caption, classes."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int64

from sct.data.index import find_mentions, split_index, split_of_caption
from sct.data.table import NO_CLASS, Table

TRAINING_SPLIT = "train"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitStatistics:
    """What a split holds of captions that can be used."""

    num_captions: int
    num_noun_chunks: int
    num_classes: int
    num_associated_chunks: int
    num_images: int
    num_source_captions: int
    num_without_chunk: int
    """Captions without a noun chunk, or of an image without a region."""
    num_unassociated: int
    """Captions of validation and test with a chunk that has no region."""

    @property
    def chunks_per_caption(self) -> float:
        """Noun chunks of a caption on average."""
        return self.num_noun_chunks / self.num_captions if self.num_captions else 0.0


class CaptionMarks(NamedTuple):
    """Which captions are of use."""

    with_chunk: Bool[np.ndarray, " captions"]
    """With a noun chunk, of an image with a region."""
    usable: Bool[np.ndarray, " captions"]
    """Those that are trained on, validated or tested, by the rule of their split."""


def mark_captions(table: Table) -> CaptionMarks:
    """Tell which captions are of use.

    A chunk without a region is filled with the image's likeliest regions in training (section 4.1), so any caption with
    a chunk will do there; a caption with such a chunk is neither validated nor tested.
    """
    columns, mentions = table.columns, find_mentions(table)
    has_region = np.diff(columns["member_offsets"]) > 0
    with_chunk, with_gap = np.zeros((2, len(columns["auto_grounded"])), dtype=bool)
    with_chunk[mentions.caption] = True
    with_chunk &= np.repeat(np.diff(columns["region_offsets"]) > 0, np.diff(columns["caption_offsets"]))
    with_gap[mentions.caption[~has_region[mentions.chunk]]] = True
    is_training = np.array([split == TRAINING_SPLIT for split in table.splits])
    return CaptionMarks(with_chunk, with_chunk & (is_training[split_of_caption(table)] | ~with_gap))


def select_captions(table: Table, split: str) -> Int64[np.ndarray, " captions"]:
    """Rows of the captions of a split that are of use."""
    here = split_of_caption(table) == split_index(table, split)
    return np.flatnonzero(mark_captions(table).usable & here)


def compute_statistics(table: Table) -> dict[str, SplitStatistics]:
    """Statistics of each split, in the order train, validation, test."""
    columns = table.columns
    marks, splits, mentions = mark_captions(table), split_of_caption(table), find_mentions(table)
    has_region = (np.diff(columns["member_offsets"]) > 0)[mentions.chunk]
    found = {}
    for number, split in enumerate(table.splits):
        here = splits == number
        counted = (marks.usable & here)[mentions.caption]
        classes = np.unique(columns["chunk_class"][mentions.chunk[counted & has_region]])
        found[split] = SplitStatistics(
            num_captions=int((marks.usable & here).sum()),
            num_noun_chunks=int(counted.sum()),
            num_classes=int((classes != NO_CLASS).sum()),
            num_associated_chunks=int((counted & has_region).sum()),
            num_images=int((columns["image_split"] == number).sum()),
            num_source_captions=int(here.sum()),
            num_without_chunk=int((here & ~marks.with_chunk).sum()),
            num_unassociated=int((here & marks.with_chunk & ~marks.usable).sum()),
        )
    return found
