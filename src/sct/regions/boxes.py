"""Box operations on numpy arrays of (x1, y1, x2, y2): IoU and non-maximum suppression."""

import numpy as np
from jaxtyping import Float, Int


def box_iou(
    first: Float[np.ndarray, "n 4"], second: Float[np.ndarray, "m 4"], *, pixel_inclusive: bool = False
) -> Float[np.ndarray, "n m"]:
    """Intersection over union of every pair; 0 where both boxes are empty.

    ``pixel_inclusive`` counts the last pixel of a box, as VOC-era detectors and the authors' code do: a side is
    x2 - x1 + 1 long.

    >>> a, b = np.array([[0.0, 0.0, 2.0, 2.0]]), np.array([[1.0, 0.0, 3.0, 2.0]])
    >>> box_iou(a, b).round(3).tolist()  # 2 / (4 + 4 - 2)
    [[0.333]]
    >>> box_iou(a, b, pixel_inclusive=True).tolist()  # 6 / (9 + 9 - 6)
    [[0.5]]
    """
    extra = 1.0 if pixel_inclusive else 0.0
    top_left = np.maximum(first[:, None, :2], second[None, :, :2])
    bottom_right = np.minimum(first[:, None, 2:], second[None, :, 2:])
    intersection = np.clip(bottom_right - top_left + extra, 0, None).prod(axis=2)
    area_first = (first[:, 2:] - first[:, :2] + extra).prod(axis=1)
    area_second = (second[:, 2:] - second[:, :2] + extra).prod(axis=1)
    union = area_first[:, None] + area_second[None, :] - intersection
    iou: np.ndarray = np.divide(intersection, union, out=np.zeros_like(intersection), where=union > 0)
    return iou


def nms(
    boxes: Float[np.ndarray, "n 4"],
    scores: Float[np.ndarray, " n"],
    iou_threshold: float,
    *,
    classes: Int[np.ndarray, " n"] | None = None,
    same_class_iou_threshold: float | None = None,
) -> list[int]:
    """Greedy NMS: indices of the kept boxes, highest score first; equal scores keep their order.

    With ``classes``, two boxes of one class are compared with ``same_class_iou_threshold`` instead.

    >>> boxes = np.array([[0.0, 0, 9, 9], [20, 0, 29, 9], [1, 0, 10, 9]])
    >>> nms(boxes, np.array([0.9, 0.7, 0.8]), 0.5)
    [0, 1]
    """
    threshold = np.full((len(boxes), len(boxes)), iou_threshold)
    if classes is not None and same_class_iou_threshold is not None:
        threshold[classes[:, None] == classes[None]] = same_class_iou_threshold
    overlaps = box_iou(boxes, boxes) > threshold
    kept: list[int] = []
    for index in np.argsort(-scores, kind="stable").tolist():
        if not overlaps[index, kept].any():
            kept.append(index)
    return kept
