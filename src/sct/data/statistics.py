"""The paper's Table 1 for any dataset: captions, noun chunks, chunks per caption, classes."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from sct.data.table import NO_CLASS, Table

TRAINING_SPLIT = "train"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitStatistics:
    """What a split holds of captions that can be used."""

    captions: int
    noun_chunks: int
    classes: int
    associated_chunks: int
    images: int
    captions_in_source: int
    dropped_without_region: int
    """Captions in which no chunk has a region."""
    dropped_unassociated: int
    """Captions of validation and test with regions, but also with a chunk that has none."""

    @property
    def chunks_per_caption(self) -> float:
        """Noun chunks of a caption on average."""
        return self.noun_chunks / self.captions if self.captions else 0.0


class CaptionMarks(NamedTuple):
    """Which captions are of use."""

    with_region: Bool[np.ndarray, " captions"]
    """Some chunk has a region."""
    usable: Bool[np.ndarray, " captions"]
    """With a region and, unless it is trained on, with no chunk that lacks one."""


def mark_captions(table: Table) -> CaptionMarks:
    """Apply the paper's rule: a caption with an unassociated chunk is trained on, but neither validated nor tested."""
    columns = table.columns
    seen = np.concatenate([[0], np.cumsum(np.diff(columns["chunk_region"]) > 0)])
    first, last = columns["caption_chunk"][:-1], columns["caption_chunk"][1:]
    num_associated = seen[last] - seen[first]
    with_region, complete = num_associated > 0, num_associated == np.diff(columns["caption_chunk"])
    is_training = np.array([split == TRAINING_SPLIT for split in table.splits])
    return CaptionMarks(with_region, with_region & (complete | is_training[split_of_caption(table)]))


def split_of_caption(table: Table) -> np.ndarray:
    """Number of the split of each caption."""
    return np.repeat(table.columns["image_split"], np.diff(table.columns["image_caption"]))


def statistics(table: Table) -> dict[str, SplitStatistics]:
    """Statistics of each split, in the order train, validation, test."""
    columns = table.columns
    marks = mark_captions(table)
    splits = split_of_caption(table)
    chunks_of_caption = np.diff(columns["caption_chunk"])
    caption_of_chunk = np.repeat(np.arange(len(chunks_of_caption)), chunks_of_caption)
    associated = np.diff(columns["chunk_region"]) > 0
    found = {}
    for number, split in enumerate(table.splits):
        here = splits == number
        chunks = (marks.usable & here)[caption_of_chunk]
        classes = np.unique(columns["chunk_class"][chunks & associated])
        found[split] = SplitStatistics(
            captions=int((marks.usable & here).sum()),
            noun_chunks=int(chunks.sum()),
            classes=int((classes != NO_CLASS).sum()),
            associated_chunks=int((chunks & associated).sum()),
            images=int((columns["image_split"] == number).sum()),
            captions_in_source=int(here.sum()),
            dropped_without_region=int((here & ~marks.with_region).sum()),
            dropped_unassociated=int((here & marks.with_region & ~marks.usable).sum()),
        )
    return found
