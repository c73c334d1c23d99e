"""Regions from and to ``supervision.Detections``, which many detectors and annotators exchange."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from sct.errors import InputError, missing_extra
from sct.regions.records import Box, Region

CLASS_NAME = "class_name"
"""Key of class names in ``Detections.data``, as supervision itself writes them."""


@runtime_checkable
class SupervisionDetections(Protocol):
    """What is read of a ``supervision.Detections``; to read one, supervision need not be installed."""

    xyxy: Any
    """Boxes in pixels, of shape (regions, 4)."""
    confidence: Any
    """Scores, or None."""
    data: Any
    """Further columns by name."""


def is_supervision(value: object) -> TypeGuard[SupervisionDetections]:
    """Whether a value is a ``supervision.Detections``, or one like it."""
    return hasattr(value, "xyxy") and hasattr(value, "confidence") and isinstance(getattr(value, "data", None), dict)


def regions_from_supervision(detections: object) -> tuple[Region, ...]:
    """Region of each row: its box, its confidence and ``data["class_name"]``, where there are any."""
    if not is_supervision(detections):
        raise InputError(f"got {type(detections).__name__}, expected a supervision.Detections")
    boxes = np.asarray(detections.xyxy, np.float64).reshape(-1, 4)
    count = len(boxes)
    scores = [None] * count if detections.confidence is None else np.asarray(detections.confidence).tolist()
    names = detections.data.get(CLASS_NAME)
    names = [None] * count if names is None else [str(name) for name in names]
    if not len(scores) == len(names) == count:
        raise InputError(
            f"got {count} boxes with {len(scores)} scores and {len(names)} class names, expected equally many"
        )
    return tuple(
        Region(Box.from_pixels(box), name, score)
        for box, score, name in zip(boxes.tolist(), scores, names, strict=True)
    )


def regions_to_supervision(regions: Sequence[Region], **columns: Sequence[Any]) -> Any:
    """``supervision.Detections`` of regions, a row each; class ids number the class names in alphabetical order.

    Regions without a score have confidence 1, those without a class the class name "". ``columns`` are added to its
    ``data``.
    """
    try:
        supervision = import_module("supervision")
    except ImportError as error:
        raise missing_extra("a supervision.Detections", "supervision", error) from error
    names = [region.class_name or "" for region in regions]
    ids = {name: number for number, name in enumerate(sorted(set(names)))}
    if not regions:
        return supervision.Detections.empty()
    return supervision.Detections(
        xyxy=np.array([region.box for region in regions], np.float32),
        confidence=np.array([1.0 if region.score is None else region.score for region in regions], np.float32),
        class_id=np.array([ids[name] for name in names]),
        data={CLASS_NAME: np.array(names), **{name: np.array(values) for name, values in columns.items()}},
    )
