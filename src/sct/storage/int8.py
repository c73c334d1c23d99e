"""Int8 quantisation of saved weights, with one scale per row."""

from collections.abc import Mapping

import torch
from torch import Tensor

from sct.errors import InputError

_SCALE = ".scale"
_MIN_SIZE = 1 << 14
"""Tensors with fewer elements are saved as float16."""


def quantize_int8(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Quantise large matrices to int8 with a scale per row; other floats become float16.

    >>> sorted(quantize_int8({"w": torch.ones(128, 256), "b": torch.ones(3)}))
    ['b', 'w', 'w.scale']
    """
    quantized: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        values = tensor.detach().cpu()
        if not values.is_floating_point():
            quantized[name] = values.contiguous()
        elif values.dim() < 2 or values.numel() < _MIN_SIZE:
            quantized[name] = values.half().contiguous()
        else:
            rows = values.float().flatten(1)
            scale = (rows.abs().amax(1) / 127).clamp(min=1e-12)
            quantized[name] = (rows / scale[:, None]).round().to(torch.int8).view(values.shape).contiguous()
            quantized[name + _SCALE] = scale
    return quantized


def dequantize_int8(tensors: Mapping[str, Tensor], source: object = "the weights") -> dict[str, Tensor]:
    """Invert ``quantize_int8`` in float32, up to half a quantisation step; ``source`` is named in errors."""
    restored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        scale = tensors.get(name + _SCALE)
        if scale is not None:
            if scale.shape != tensor.shape[:1] or not scale.is_floating_point():
                raise InputError(f"{source}: {name} has {len(tensor):,} rows, expected a scale for each")
            restored[name] = tensor.float().mul_(scale.view(-1, *[1] * (tensor.dim() - 1)))
        elif not name.endswith(_SCALE):
            restored[name] = tensor.float() if tensor.is_floating_point() else tensor
    return restored
