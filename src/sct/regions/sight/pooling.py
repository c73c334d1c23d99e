"""What lies in a box of a feature map, in a fixed number of cells, by torch's own operators."""

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float
from torch import Tensor

_POINTS = 2
"""Points of a cell's side at which the map is read."""


def pool_boxes(
    maps: Float[Tensor, "pictures channels rows columns"], boxes: Float[Tensor, "pictures boxes 4"], cells: int
) -> Float[Tensor, "pictures boxes channels cells cells"]:
    """Mean of the map in each of ``cells`` x ``cells`` cells of each box, interpolated between the map's own points.

    ``boxes`` are relative to their pictures, from 0 to 1.
    """
    points = cells * _POINTS
    steps = (torch.arange(points, device=boxes.device, dtype=boxes.dtype) + 0.5) / points
    corner, size = boxes[..., None, :2], boxes[..., None, 2:] - boxes[..., None, :2]
    places = corner + steps[:, None] * size
    x = places[..., None, :, 0].expand(-1, -1, points, -1)
    y = places[..., :, None, 1].expand(-1, -1, -1, points)
    grid = torch.stack([x, y], dim=-1).to(maps.dtype) * 2 - 1
    read: Tensor = F.grid_sample(maps, grid.flatten(1, 2), padding_mode="border", align_corners=False)
    by_cell = read.unflatten(3, (cells, _POINTS)).unflatten(2, (boxes.shape[1], cells, _POINTS))
    pooled: Tensor = by_cell.mean((4, 6))
    return pooled.transpose(1, 2)
