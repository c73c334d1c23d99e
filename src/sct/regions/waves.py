"""Places and sizes as waves, so that a linear layer can tell left from middle."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

WAVES = 4
"""Waves of each number, each twice as fast as the one before."""


def with_waves(numbers: Float[Tensor, "*shape numbers"]) -> Float[Tensor, "*shape numbers_and_waves"]:
    """Numbers from 0 to 1, plain from -1 to 1 and as sines and cosines.

    >>> with_waves(torch.rand(3, 6)).shape[-1] == 6 * (1 + 2 * WAVES)
    True
    """
    speeds = math.pi * 2.0 ** torch.arange(WAVES, device=numbers.device)
    angles = (numbers[..., None] * speeds).flatten(-2)
    return torch.cat([2 * numbers - 1, angles.sin(), angles.cos()], dim=-1)
