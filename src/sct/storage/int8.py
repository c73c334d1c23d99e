"""Weights in a quarter of their size: rows of 8-bit numbers, each row with a scale."""

from collections.abc import Mapping

import torch
from torch import Tensor

_SCALE = ".scale"
_SMALLEST = 1 << 14
"""Numbers of a tensor from which packing is worth the loss."""


def pack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Large matrices as 8-bit rows and their scales, everything else in half precision.

    >>> sorted(pack({"w": torch.ones(128, 256), "b": torch.ones(3)}))
    ['b', 'w', 'w.scale']
    """
    packed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        values = tensor.detach().cpu()
        if not values.is_floating_point():
            packed[name] = values.contiguous()
        elif values.dim() < 2 or values.numel() < _SMALLEST:
            packed[name] = values.half().contiguous()
        else:
            rows = values.float().flatten(1)
            scale = (rows.abs().amax(1) / 127).clamp(min=1e-12)
            packed[name] = (rows / scale[:, None]).round().to(torch.int8).view(values.shape).contiguous()
            packed[name + _SCALE] = scale
    return packed


def unpack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What ``pack`` was given, in single precision, each matrix off by at most half a step of its rows."""
    whole: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        scale = tensors.get(name + _SCALE)
        if scale is not None:
            whole[name] = tensor.float() * scale.view(-1, *[1] * (tensor.dim() - 1))
        elif not name.endswith(_SCALE):
            whole[name] = tensor.float() if tensor.is_floating_point() else tensor
    return whole
