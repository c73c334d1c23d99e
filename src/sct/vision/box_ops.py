"""Box operations on tensors: anchors, delta encoding, IoU and non-maximum suppression.

Boxes are (x1, y1, x2, y2), relative to the image.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

ANCHOR_SIZES = (0.09, 0.18, 0.33, 0.58, 0.92)
"""Relative to the image."""
ASPECT_RATIOS = (0.5, 1.0, 2.0)
"""Height / width."""
NUM_ANCHORS = len(ANCHOR_SIZES) * len(ASPECT_RATIOS)
"""Anchors per cell of the feature map."""
_MAX_LOG_SCALE = 2.5


def build_anchors(rows: int, columns: int) -> Float[Tensor, "anchors 4"]:
    """Anchors around the centre of each cell of a feature map, cell by cell; they may extend beyond the image."""
    y, x = torch.meshgrid((torch.arange(rows) + 0.5) / rows, (torch.arange(columns) + 0.5) / columns, indexing="ij")
    centers = torch.stack([x, y], dim=-1).view(-1, 1, 2)
    sizes = torch.tensor([(size / ratio**0.5, size * ratio**0.5) for size in ANCHOR_SIZES for ratio in ASPECT_RATIOS])
    return torch.cat([centers - sizes / 2, centers + sizes / 2], dim=-1).flatten(0, 1)


def decode_boxes(boxes: Float[Tensor, "*n 4"], deltas: Float[Tensor, "*n 4"]) -> Float[Tensor, "*n 4"]:
    """Apply (dx, dy, log dw, log dh) to boxes and clip them to the image."""
    size = boxes[..., 2:] - boxes[..., :2]
    center = (boxes[..., :2] + boxes[..., 2:]) / 2 + deltas[..., :2] * size
    scaled = size * deltas[..., 2:].clamp(-_MAX_LOG_SCALE, _MAX_LOG_SCALE).exp()
    return torch.cat([center - scaled / 2, center + scaled / 2], dim=-1).clamp(0, 1)


def encode_boxes(boxes: Float[Tensor, "*n 4"], targets: Float[Tensor, "*n 4"]) -> Float[Tensor, "*n 4"]:
    """Deltas with which ``decode_boxes`` turns ``boxes`` into ``targets``."""
    size = boxes[..., 2:] - boxes[..., :2]
    shift = ((targets[..., :2] + targets[..., 2:]) - (boxes[..., :2] + boxes[..., 2:])) / 2 / size
    return torch.cat([shift, ((targets[..., 2:] - targets[..., :2]) / size).log()], dim=-1)


def box_iou(first: Float[Tensor, "*n a 4"], second: Float[Tensor, "*n b 4"]) -> Float[Tensor, "*n a b"]:
    """Intersection over union of every pair; 0 where both boxes are empty."""
    top_left = torch.maximum(first[..., :, None, :2], second[..., None, :, :2])
    bottom_right = torch.minimum(first[..., :, None, 2:], second[..., None, :, 2:])
    intersection = (bottom_right - top_left).clamp(min=0).prod(-1)
    areas = [(boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(-1) for boxes in (first, second)]
    return intersection / (areas[0][..., :, None] + areas[1][..., None, :] - intersection).clamp(min=1e-9)


def nms(
    boxes: Float[Tensor, "n 4"], scores: Float[Tensor, " n"], iou_threshold: float, limit: int
) -> Int[Tensor, " kept"]:
    """Greedy NMS: indices of at most ``limit`` kept boxes, highest score first.

    Overlaps are computed for the kept boxes only, a tenth of all pairs, with the arithmetic of ``box_iou``.
    """
    order = scores.argsort(descending=True)
    x1, y1, x2, y2 = boxes[order].T.contiguous().cpu().numpy()
    areas = (x2 - x1).clip(min=0) * (y2 - y1).clip(min=0)
    is_suppressed = np.zeros(len(order), dtype=bool)
    kept: list[int] = []
    for rank in range(len(order)):
        if is_suppressed[rank]:
            continue
        kept.append(rank)
        if len(kept) == limit:
            break
        width = np.minimum(x2[rank], x2) - np.maximum(x1[rank], x1)
        height = np.minimum(y2[rank], y2) - np.maximum(y1[rank], y1)
        intersection = width.clip(min=0) * height.clip(min=0)
        is_suppressed |= intersection / (areas[rank] + areas - intersection).clip(min=1e-9) > iou_threshold
    return order[torch.tensor(kept, dtype=torch.long, device=order.device)]
