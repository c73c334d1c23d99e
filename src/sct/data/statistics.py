"""Dataset statistics (the paper's Table 1) and the selection of usable captions."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int64

from sct.data.index import find_mentions, split_index, split_of_caption
from sct.data.table import TRAINING_SPLIT, Table
from sct.regions.records import NO_CLASS


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitStatistics:
    """Statistics of the usable captions of a split, and counts of those dropped."""

    num_captions: int
    num_noun_chunks: int
    num_classes: int
    num_images: int
    num_source_captions: int
    num_source_chunks: int
    """Noun chunks of all captions, also of dropped ones."""
    num_associated_chunks: int
    """Those of them with a region."""
    num_without_chunk: int
    """Captions without a noun chunk, or of an image without a region."""
    num_unassociated: int
    """Validation and test captions with a chunk that has no region."""

    @property
    def chunks_per_caption(self) -> float:
        """Mean number of noun chunks per caption."""
        return self.num_noun_chunks / self.num_captions if self.num_captions else 0.0

    @property
    def associated_share(self) -> float:
        """Share of the source's noun chunks with a region."""
        return self.num_associated_chunks / self.num_source_chunks if self.num_source_chunks else 0.0


class CaptionMarks(NamedTuple):
    """Which captions can be used."""

    with_chunk: Bool[np.ndarray, " captions"]
    """Captions with a noun chunk, of an image with a region."""
    usable: Bool[np.ndarray, " captions"]
    """Captions used for training, validation or testing, depending on their split."""


def mark_captions(table: Table) -> CaptionMarks:
    """Determine which captions can be used.

    In training, a chunk without a region takes the image's top-scoring regions (section 4.1), so every caption with a
    chunk is used. Validation and test captions with such a chunk are dropped.
    """
    columns, mentions = table.columns, find_mentions(table)
    has_region = np.diff(columns["member_offsets"]) > 0
    with_chunk, has_unassociated = np.zeros((2, len(columns["auto_grounded"])), dtype=bool)
    with_chunk[mentions.caption] = True
    with_chunk &= np.repeat(np.diff(columns["region_offsets"]) > 0, np.diff(columns["caption_offsets"]))
    has_unassociated[mentions.caption[~has_region[mentions.chunk]]] = True
    is_training = np.array([split == TRAINING_SPLIT for split in table.splits])
    return CaptionMarks(with_chunk, with_chunk & (is_training[split_of_caption(table)] | ~has_unassociated))


def select_captions(table: Table, split: str) -> Int64[np.ndarray, " captions"]:
    """Return the rows of the usable captions of a split."""
    in_split = split_of_caption(table) == split_index(table, split)
    return np.flatnonzero(mark_captions(table).usable & in_split)


def compute_statistics(table: Table) -> dict[str, SplitStatistics]:
    """Compute the statistics of each split, in the order train, val, test."""
    columns = table.columns
    marks, splits, mentions = mark_captions(table), split_of_caption(table), find_mentions(table)
    has_region = (np.diff(columns["member_offsets"]) > 0)[mentions.chunk]
    statistics = {}
    for index, split in enumerate(table.splits):
        in_split = splits == index
        is_counted, is_in_split = (marks.usable & in_split)[mentions.caption], in_split[mentions.caption]
        classes = np.unique(columns["chunk_class"][mentions.chunk[is_counted & has_region]])
        statistics[split] = SplitStatistics(
            num_captions=int((marks.usable & in_split).sum()),
            num_noun_chunks=int(is_counted.sum()),
            num_classes=int((classes != NO_CLASS).sum()),
            num_images=int((columns["image_split"] == index).sum()),
            num_source_captions=int(in_split.sum()),
            num_source_chunks=int(is_in_split.sum()),
            num_associated_chunks=int((is_in_split & has_region).sum()),
            num_without_chunk=int((in_split & ~marks.with_chunk).sum()),
            num_unassociated=int((in_split & marks.with_chunk & ~marks.usable).sum()),
        )
    return statistics
