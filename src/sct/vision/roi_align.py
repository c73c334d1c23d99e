"""RoIAlign as two matrix products, in plain PyTorch."""

import torch
from jaxtyping import Float
from torch import Tensor

_SAMPLING_RATIO = 2
"""Sampling points along each side of an output cell."""


def roi_align(
    maps: Float[Tensor, "images channels rows columns"], boxes: Float[Tensor, "images boxes 4"], output_size: int
) -> Float[Tensor, "images boxes channels cells cells"]:
    """Average the bilinearly interpolated map in each of ``output_size`` x ``output_size`` cells of each box.

    ``boxes`` are relative to their images, from 0 to 1. Bilinear interpolation is separable, so each axis is one matrix
    product, whose gradient needs no scatter.
    """
    rows, columns = maps.shape[-2:]
    vertical = _interpolation_weights(boxes[..., 1], boxes[..., 3], rows, output_size).to(maps.dtype)
    horizontal = _interpolation_weights(boxes[..., 0], boxes[..., 2], columns, output_size).to(maps.dtype)
    pooled = torch.einsum("pbjx,pcyx->pbjyc", horizontal, maps)
    return torch.einsum("pbiy,pbjyc->pbcij", vertical, pooled)


def _interpolation_weights(
    start: Float[Tensor, "images boxes"], stop: Float[Tensor, "images boxes"], size: int, cells: int
) -> Float[Tensor, "images boxes cells size"]:
    """Weight of each point along one axis of the map in each cell of a box.

    >>> _interpolation_weights(torch.tensor([[0.0]]), torch.tensor([[1.0]]), size=4, cells=2).tolist()
    [[[[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]]]
    """
    count = cells * _SAMPLING_RATIO
    steps = (torch.arange(count, device=start.device, dtype=start.dtype) + 0.5) / count
    # Map values are at cell centres; beyond the first and the last they are repeated.
    points = ((start[..., None] + steps * (stop - start)[..., None]) * size - 0.5).clamp(0, size - 1)
    weights = (1 - (points[..., None] - torch.arange(size, device=start.device)).abs()).clamp(min=0)
    averaged: Tensor = weights.unflatten(-2, (cells, _SAMPLING_RATIO)).mean(-2)
    return averaged
