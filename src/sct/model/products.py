"""Ways to store a matrix and multiply with it."""

from collections.abc import Callable
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional


class Product(Protocol):
    """Multiplies rows with a fixed matrix."""

    def __call__(self, rows: Float[Tensor, "rows inputs"], /) -> Float[Tensor, "rows outputs"]:
        """The rows, each times the matrix."""
        ...


ProductFactory = Callable[[Tensor, Tensor | None], Product]
"""Makes a product of a weight of shape (outputs, inputs) and perhaps a bias to be added."""


def dense(weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None = None) -> Product:
    """Multiply with the weight as it is."""
    kept = weight.clone().contiguous()
    return lambda rows: functional.linear(rows, kept, bias)


def int8(weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None = None) -> Product:
    """Multiply on a CPU with whole numbers of 8 bits: a scale for each output, the rows rounded as they come.

    A caption is said a few rows at a time, so most of the time goes into reading weights: a quarter of the bytes.
    """
    scales = (weight.abs().amax(dim=1) / 127).clamp(min=1e-12)
    rounded = (weight / scales[:, None]).round().to(torch.int8)
    packed = torch.ops.quantized.linear_prepack(
        torch._make_per_channel_quantized_tensor(rounded, scales.double(), torch.zeros(len(scales)).long(), 0), bias
    )
    product: Product = lambda rows: torch.ops.quantized.linear_dynamic(rows, packed, False)  # noqa: E731
    return product
