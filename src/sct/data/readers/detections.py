"""What the readers need of a detector's output, and how a human box finds its detection."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from sct.errors import InputError
from sct.regions import Region
from sct.regions.boxes import box_iou

LARGEST_REFERENCE_SET = 20
"""The authors' code takes this many detections for a chunk and forgets the others."""


@runtime_checkable
class Detections(Protocol):
    """The regions a detector found in each image, in the detector's order."""

    def __contains__(self, image_id: str, /) -> bool:
        """Say whether the image was looked at."""
        ...

    def regions(self, image_id: str, /) -> tuple[Region, ...]:
        """All detections of an image."""
        ...


def detections_of(detections: Detections, image_id: str) -> tuple[Region, ...]:
    """Look up an image, or say that it is missing; the authors' code goes on with random features instead."""
    if image_id not in detections:
        raise InputError(
            f"image {image_id} is not among the detections: expected its regions, "
            "run the detector on it or give the store that holds it"
        )
    regions = detections.regions(image_id)
    if not regions:
        raise InputError(
            f"image {image_id} has no detection at all: expected at least one, run the detector again on it"
        )
    return regions


def best_detections(
    boxes: Sequence[Sequence[float]], regions: Sequence[Region], *, min_iou: float | None, else_last: bool
) -> list[int | None]:
    """Find for each box the detection of highest intersection over union, the first one where several tie.

    Boxes count their last pixel (point 11 of the reference behaviour). A box that nothing overlaps, or only by less
    than ``min_iou``, gets None. ``else_last`` keeps the authors' defect where no ``min_iou`` is set: a box that nothing
    overlaps gets the last detection, whatever that is.

    >>> from sct.regions import Box
    >>> regions = [Region(Box(0.0, 0.0, 9.0, 9.0)), Region(Box(50.0, 50.0, 59.0, 59.0))]
    >>> best_detections([(0, 0, 9, 4), (90, 90, 99, 99)], regions, min_iou=None, else_last=False)  # 50 / 100, 0
    [0, None]
    >>> best_detections([(0, 0, 9, 4), (90, 90, 99, 99)], regions, min_iou=None, else_last=True)
    [0, 1]
    >>> best_detections([(0, 0, 9, 4)], regions, min_iou=0.6, else_last=True)
    [None]
    """
    if not boxes:
        return []
    overlaps = box_iou(
        np.array(boxes, dtype=np.float64),
        np.array([region.box for region in regions], dtype=np.float64),
        pixel_inclusive=True,
    )
    fallback = len(regions) - 1 if else_last and min_iou is None else None
    return [int(row.argmax()) if row.max() > 0 and row.max() >= (min_iou or 0) else fallback for row in overlaps]
