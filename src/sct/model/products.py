"""Ways to store a matrix and multiply with it."""

from collections.abc import Callable
from typing import Protocol

import torch
from jaxtyping import Float, Int8
from torch import Tensor
from torch.nn import functional


class Product(Protocol):
    """Multiplies rows with a fixed matrix."""

    def __call__(self, rows: Float[Tensor, "rows inputs"], /) -> Float[Tensor, "rows outputs"]:
        """The rows, each times the matrix."""
        ...


ProductFactory = Callable[[Tensor], Product]
"""Makes a product of a weight of shape (outputs, inputs)."""


def dense(weight: Float[Tensor, "outputs inputs"]) -> Product:
    """Multiply with the weight as it is."""
    kept = weight.detach().clone().contiguous()
    return lambda rows: functional.linear(rows, kept)
