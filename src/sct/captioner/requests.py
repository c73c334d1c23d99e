"""Which regions to talk about, when nobody points at any.

What is asked of a captioner: what to talk about, and how the caption is to be found.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float, Shaped
from PIL import Image

from sct.decoding.config import check_length_penalty
from sct.errors import InputError
from sct.regions.boxes import box_iou
from sct.regions.images import LoadedImage
from sct.regions.records import Control, Region


@dataclass(frozen=True, kw_only=True, slots=True)
class ProposalSelection:
    """How many of the proposed regions are worth a caption, and which of them say the same twice."""

    max_regions: int = 3
    """As many as people name in a caption; captions of more are worse (docs/results.md)."""
    iou_threshold: float = 0.6
    """A region that overlaps a better one by more than this (IoU) is left out."""
    same_class_iou_threshold: float = 0.4
    """The same for two regions of one name: a detector often sees a thing twice."""
    relative_score_threshold: float = 0.5
    """A region must have at least this share of the best one's score."""

    def __post_init__(self) -> None:
        """Refuse what would choose nothing, or cannot be compared with."""
        if self.max_regions < 1:
            raise InputError(f"max_regions is {self.max_regions}: expected at least 1")
        for name in ("iou_threshold", "same_class_iou_threshold", "relative_score_threshold"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)}: expected 0 to 1")


def choose(proposals: Sequence[Region], choice: ProposalSelection | None = None) -> tuple[Region, ...]:
    """The proposals that are worth a caption, the best first, as they came; none of none.

    >>> from sct.regions import Box
    >>> found = [Region(Box(x, 0, x + 9, 9), "man", score) for x, score in ((0, 0.9), (1, 0.8), (20, 0.7))]
    >>> [region.score for region in choose(found)]  # the first man was found twice
    [0.9, 0.7]
    """
    choice = choice or ProposalSelection()
    chosen: list[Region] = []
    for region in proposals:
        if len(chosen) == choice.max_regions:
            break
        if _score(region) >= choice.relative_score_threshold * _score(proposals[0]) and _is_new(region, chosen, choice):
            chosen.append(region)
    return tuple(chosen)


def _is_new(region: Region, chosen: Sequence[Region], choice: ProposalSelection) -> bool:
    if not chosen:
        return True
    boxes = np.array([other.box for other in chosen], np.float64)
    overlaps = box_iou(np.array([region.box], np.float64), boxes)[0].tolist()
    return not any(
        overlap > (choice.same_class_iou_threshold if region.class_name == other.class_name else choice.iou_threshold)
        for other, overlap in zip(chosen, overlaps, strict=True)
    )


def _score(region: Region) -> float:
    return 0.0 if region.score is None else region.score


ImageSource = str | Path | bytes | Image.Image | Shaped[np.ndarray, "..."] | LoadedImage
"""A file, what a file holds, or an image that is decoded already."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionOptions:
    """How a caption is to be found, and what must hold for it."""

    beam_size: int = 5
    n_best: int = 1
    max_length: int = 20
    """Most words, the end of the sentence counted as one."""
    min_length: int = 0
    length_penalty: float | None = None
    """Captions are ranked by score / length ** this, so above 0 longer ones are favoured; 0 is the paper's search.

    None is the bundle's own, or 0 where the search is the authors'.
    """
    cover: bool = False
    """Talk about every region set, in order, before the sentence ends."""
    no_repeat_ngram_size: int = 0
    """Never say the same so many words in a row twice; 0 is off."""
    banned: tuple[str, ...] = ()
    """Words that are never said; "<unk>" may be one of them."""
    required: tuple[str, ...] = ()
    """Words that are all said."""
    reference_search: bool = False
    """Search as the authors' released code does, also with other weights than theirs."""

    def __post_init__(self) -> None:
        """Refuse values of the wrong kind; what clashes is told by the search."""
        for name in ("beam_size", "n_best", "max_length", "min_length", "no_repeat_ngram_size"):
            if type(getattr(self, name)) is not int:
                raise InputError(f"{name} is {getattr(self, name)!r}: expected a whole number")
        if self.length_penalty is not None:
            check_length_penalty(self.length_penalty)
        for name in ("banned", "required"):
            if isinstance(getattr(self, name), str):
                raise InputError(f"{name} is {getattr(self, name)!r}: expected a tuple of words")


@dataclass(frozen=True, slots=True)
class RegionRequest:
    """A control whose regions have features, and the image it is about."""

    control: Control
    detections: tuple[Region, ...] = ()
    """Regions of the whole image, whose mean feature describes it; without them the control's own do."""
    image_size: tuple[float, float] | None = None
    """Width and height of the image, in the unit of the boxes: a sorter asks where in it a region is."""
    descriptor: Float[np.ndarray, " features"] | None = field(default=None, compare=False, repr=False)
    """Describes the whole image in the place of any mean."""


@dataclass(frozen=True, slots=True, eq=False)
class ImageRequest:
    """An image, and what of it is to be talked about."""

    image: ImageSource
    control: Control | None = None
    """None: regions are detected, chosen and put in order. Features that its regions have are not looked at."""
    choice: ProposalSelection = field(default_factory=ProposalSelection)
    """How they are chosen."""
