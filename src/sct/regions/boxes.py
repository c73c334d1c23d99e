"""Box geometry on arrays of (x1, y1, x2, y2)."""

import numpy as np
from jaxtyping import Float


def box_iou(
    first: Float[np.ndarray, "n 4"], second: Float[np.ndarray, "m 4"], *, pixel_inclusive: bool = False
) -> Float[np.ndarray, "n m"]:
    """Intersection over union of every pair.

    ``pixel_inclusive`` counts the last pixel of a box as its own, as detectors of the VOC era and the authors' code do:
    a side is x2 - x1 + 1 long.

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
    overlap: np.ndarray = np.divide(intersection, union, out=np.zeros_like(intersection), where=union > 0)
    return overlap
