"""Products that a recurrent network repeats at every step, with the gradient of their weight computed once at the end.

Autograd would compute it at every step and add the results up: as many passes over the whole weight as there are steps.
Kept until the last step, inputs and gradients lie one below the other, and one large product does it all.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

_Uses = list[tuple[Tensor, Tensor]]
"""Rows that came in and gradients that came back, of each use."""


class LateProduct:
    """Multiplies rows with a weight, again and again within one forward pass; a new pass needs a new one."""

    def __init__(self, weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None = None) -> None:
        self._uses: _Uses = []
        self._weight, self._bias = _Weights.apply(weight, bias, self._uses)  # type: ignore[no-untyped-call]

    def __call__(self, rows: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """Rows times the transposed weight, plus the bias."""
        product: Tensor = _Product.apply(rows, self._weight, self._bias, self._uses)  # type: ignore[no-untyped-call]
        return product


class _Weights(torch.autograd.Function):
    """Passes weights on; autograd comes back to it only when every use has been through its own backward pass."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, uses: _Uses) -> tuple[Tensor, Tensor | None]:
        ctx.set_materialize_grads(False)
        ctx.uses, ctx.has_bias = uses, bias is not None
        return weight.view_as(weight), None if bias is None else bias.view_as(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *_: None) -> tuple[Tensor | None, Tensor | None, None]:
        if not ctx.uses:
            return None, None, None
        rows, gradients = (torch.cat(parts) for parts in zip(*ctx.uses, strict=True))
        ctx.uses.clear()
        return gradients.T @ rows, gradients.sum(0) if ctx.has_bias else None, None


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None, uses: _Uses) -> Tensor:
        ctx.save_for_backward(rows, weight)
        ctx.uses = uses
        return torch.nn.functional.linear(rows, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None, None]:
        rows, weight = ctx.saved_tensors
        ctx.uses.append((rows, gradient))
        return gradient @ weight if ctx.needs_input_grad[0] else None, None, None, None
