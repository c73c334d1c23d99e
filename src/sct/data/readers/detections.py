"""Detections that readers refer to, and the matching of human boxes to them."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from sct.errors import InputError
from sct.regions import Region
from sct.regions.boxes import box_iou

MAX_REFERENCE_DETECTIONS = 20
"""Maximum number of detections per chunk in the authors' code."""


@runtime_checkable
class DetectionSource(Protocol):
    """Detected regions by image, in the order of the detector; a region store is one."""

    def __contains__(self, image_id: str, /) -> bool:
        """Whether the detector was run on the image."""
        ...

    def regions(self, image_id: str, /) -> tuple[Region, ...]:
        """Return all detections of an image."""
        ...


def get_detections(detections: DetectionSource, image_id: str) -> tuple[Region, ...]:
    """Return the detections of an image, or raise; the authors' code would use random features instead."""
    if image_id not in detections:
        raise InputError(
            f"image {image_id} is not among the detections: run the detector on it or give the store that has it"
        )
    regions = detections.regions(image_id)
    if not regions:
        raise InputError(f"image {image_id} has no detection, expected at least one: run the detector on it again")
    return regions


def match_boxes(
    boxes: Sequence[Sequence[float]], regions: Sequence[Region], *, min_iou: float | None, else_last: bool
) -> list[int | None]:
    """Return the index of the detection with the highest IoU for each box; ties go to the first.

    Boxes include their last pixel (point 11 of the reference behaviour). A box without overlap, or with an IoU below
    ``min_iou``, gets None. ``else_last`` reproduces a defect of the authors' code: without a ``min_iou``, a box that
    nothing overlaps gets the last detection.

    >>> from sct.regions import Box
    >>> regions = [Region(Box(0.0, 0.0, 9.0, 9.0)), Region(Box(50.0, 50.0, 59.0, 59.0))]
    >>> match_boxes([(0, 0, 9, 4), (90, 90, 99, 99)], regions, min_iou=None, else_last=False)  # 50 / 100, 0
    [0, None]
    >>> match_boxes([(0, 0, 9, 4), (90, 90, 99, 99)], regions, min_iou=None, else_last=True)
    [0, 1]
    >>> match_boxes([(0, 0, 9, 4)], regions, min_iou=0.6, else_last=True)
    [None]
    """
    if not boxes:
        return []
    ious = box_iou(
        np.array(boxes, dtype=np.float64),
        np.array([region.box for region in regions], dtype=np.float64),
        pixel_inclusive=True,
    )
    fallback = len(regions) - 1 if else_last and min_iou is None else None
    return [int(row.argmax()) if row.max() > 0 and row.max() >= (min_iou or 0) else fallback for row in ious]
