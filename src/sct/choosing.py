"""Which regions to talk about, when nobody points at any."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sct.errors import InputError
from sct.regions.boxes import pairwise_iou
from sct.regions.records import Region


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """How many of the proposed regions are worth a caption, and which of them say the same twice."""

    max_regions: int = 3
    """As many as people name in a caption; captions of more are worse (docs/results.md)."""
    max_overlap: float = 0.6
    """A region that overlaps a better one by more than this (IoU) is left out."""
    max_overlap_same_name: float = 0.4
    """The same for two regions of one name: a detector often sees a thing twice."""
    least_share: float = 0.5
    """A region must have at least this share of the best one's score."""

    def __post_init__(self) -> None:
        """Refuse what would choose nothing, or cannot be compared with."""
        if self.max_regions < 1:
            raise InputError(f"max_regions is {self.max_regions}: wanted at least 1")
        for name in ("max_overlap", "max_overlap_same_name", "least_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)}: wanted 0 to 1")


def choose(proposals: Sequence[Region], choice: Choice | None = None) -> tuple[Region, ...]:
    """The proposals that are worth a caption, the best first, as they came; none of none.

    >>> from sct.regions import Box
    >>> found = [Region(Box(x, 0, x + 9, 9), "man", score) for x, score in ((0, 0.9), (1, 0.8), (20, 0.7))]
    >>> [region.score for region in choose(found)]  # the first man was found twice
    [0.9, 0.7]
    """
    choice = choice or Choice()
    chosen: list[Region] = []
    for region in proposals:
        if len(chosen) == choice.max_regions:
            break
        if _score(region) >= choice.least_share * _score(proposals[0]) and _is_new(region, chosen, choice):
            chosen.append(region)
    return tuple(chosen)


def _is_new(region: Region, chosen: Sequence[Region], choice: Choice) -> bool:
    if not chosen:
        return True
    boxes = np.array([other.box for other in chosen], np.float64)
    overlaps = pairwise_iou(np.array([region.box], np.float64), boxes)[0].tolist()
    return not any(
        overlap > (choice.max_overlap_same_name if region.class_name == other.class_name else choice.max_overlap)
        for other, overlap in zip(chosen, overlaps, strict=True)
    )


def _score(region: Region) -> float:
    return 0.0 if region.score is None else region.score
