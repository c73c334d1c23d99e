"""What lies in a box of a feature map, in a fixed number of cells, by torch's own operators."""

import torch
from jaxtyping import Float
from torch import Tensor

_POINTS = 2
"""Points of a cell's side at which the map is read."""


def roi_align(
    maps: Float[Tensor, "images channels rows columns"], boxes: Float[Tensor, "images boxes 4"], cells: int
) -> Float[Tensor, "images boxes channels cells cells"]:
    """Mean of the map in each of ``cells`` x ``cells`` cells of each box, interpolated between the map's own points.

    ``boxes`` are relative to their images, from 0 to 1. Interpolation along one side does not depend on the other, so
    it is two products of matrices: no gradient is gathered from thousands of places at once.
    """
    rows, columns = maps.shape[-2:]
    down = _shares(boxes[..., 1], boxes[..., 3], rows, cells).to(maps.dtype)
    across = _shares(boxes[..., 0], boxes[..., 2], columns, cells).to(maps.dtype)
    read = torch.einsum("pbjx,pcyx->pbjyc", across, maps)
    return torch.einsum("pbiy,pbjyc->pbcij", down, read)


def _shares(
    start: Float[Tensor, "images boxes"], stop: Float[Tensor, "images boxes"], size: int, cells: int
) -> Float[Tensor, "images boxes cells size"]:
    """How much each point of one side of the map counts in each cell.

    >>> _shares(torch.tensor([[0.0]]), torch.tensor([[1.0]]), size=4, cells=2).tolist()
    [[[[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]]]
    """
    steps = (torch.arange(cells * _POINTS, device=start.device, dtype=start.dtype) + 0.5) / (cells * _POINTS)
    # The map's own points are the centres of its cells; beyond the first and the last it goes on as there.
    places = ((start[..., None] + steps * (stop - start)[..., None]) * size - 0.5).clamp(0, size - 1)
    near = 1 - (places[..., None] - torch.arange(size, device=start.device)).abs()
    shares: Tensor = near.clamp(min=0).unflatten(-2, (cells, _POINTS)).mean(-2)
    return shares
