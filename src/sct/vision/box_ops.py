"""Boxes that may be worth talking about: anchors, their deltas, and the suppression of doubles."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

SIDES = (0.09, 0.18, 0.33, 0.58, 0.92)
"""Of anchors, relative to the image's."""
SHAPES = (0.5, 1.0, 2.0)
"""Height by width."""
NUM_ANCHORS = len(SIDES) * len(SHAPES)
_LARGEST_GROWTH = 2.5


def anchors(rows: int, columns: int) -> Float[Tensor, "anchors 4"]:
    """Boxes around the centre of each cell of a map, cell by cell, relative to the image; they may leave it."""
    y, x = torch.meshgrid((torch.arange(rows) + 0.5) / rows, (torch.arange(columns) + 0.5) / columns, indexing="ij")
    centres = torch.stack([x, y], dim=-1).view(-1, 1, 2)
    sizes = torch.tensor([(side / shape**0.5, side * shape**0.5) for side in SIDES for shape in SHAPES])
    return torch.cat([centres - sizes / 2, centres + sizes / 2], dim=-1).flatten(0, 1)


def moved(boxes: Float[Tensor, "*n 4"], deltas: Float[Tensor, "*n 4"]) -> Float[Tensor, "*n 4"]:
    """Boxes moved and scaled by deltas, kept inside the image."""
    size = boxes[..., 2:] - boxes[..., :2]
    centre = (boxes[..., :2] + boxes[..., 2:]) / 2 + deltas[..., :2] * size
    grown = size * deltas[..., 2:].clamp(-_LARGEST_GROWTH, _LARGEST_GROWTH).exp()
    return torch.cat([centre - grown / 2, centre + grown / 2], dim=-1).clamp(0, 1)


def encode_boxes(boxes: Float[Tensor, "*n 4"], expected: Float[Tensor, "*n 4"]) -> Float[Tensor, "*n 4"]:
    """What ``moved`` needs to make the one of the other."""
    size = boxes[..., 2:] - boxes[..., :2]
    shift = ((expected[..., :2] + expected[..., 2:]) - (boxes[..., :2] + boxes[..., 2:])) / 2 / size
    return torch.cat([shift, ((expected[..., 2:] - expected[..., :2]) / size).log()], dim=-1)


def overlaps(first: Float[Tensor, "*n a 4"], second: Float[Tensor, "*n b 4"]) -> Float[Tensor, "*n a b"]:
    """Intersection over union of every pair; 0 where both are empty."""
    top_left = torch.maximum(first[..., :, None, :2], second[..., None, :, :2])
    bottom_right = torch.minimum(first[..., :, None, 2:], second[..., None, :, 2:])
    shared = (bottom_right - top_left).clamp(min=0).prod(-1)
    areas = [(boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(-1) for boxes in (first, second)]
    return shared / (areas[0][..., :, None] + areas[1][..., None, :] - shared).clamp(min=1e-9)


def nms(
    boxes: Float[Tensor, "n 4"], scores: Float[Tensor, " n"], largest_overlap: float, limit: int
) -> Int[Tensor, " kept"]:
    """Rows of the best boxes, best first, none of which overlaps a better one by more than is allowed."""
    order = scores.argsort(descending=True)
    clash: Bool[Tensor, "n n"] = overlaps(boxes[order], boxes[order]) > largest_overlap
    clashes = clash.triu(1).cpu().numpy()
    kept: list[int] = []
    dead = torch.zeros(len(order), dtype=torch.bool).numpy()
    for place in range(len(order)):
        if dead[place]:
            continue
        kept.append(place)
        if len(kept) == limit:
            break
        dead |= clashes[place]
    return order[torch.tensor(kept, dtype=torch.long, device=order.device)]
