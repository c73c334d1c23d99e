"""Ways to store a matrix and multiply with it.

LinearBackend that a recurrent network repeats at every step, with the gradient of their weight computed once at the end.

Autograd would compute it at every step and add the results up: as many passes over the whole weight as there are steps.
Kept until the last step, inputs and gradients lie one below the other, and one large product does it all.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from sct.errors import InputError

EVEN = 8
"""Numbers of outputs that are multiples of it suit the tensor cores of a GPU."""
Product = Callable[[Tensor], Tensor]
"""Multiplies rows with a fixed matrix: (rows, inputs) -> (rows, outputs)."""


@runtime_checkable
class ProductFactory(Protocol):
    """Makes a product of a weight and perhaps a bias to be added."""

    def __call__(self, weight: Tensor, bias: Tensor | None = None, /, *, bounded: bool = False) -> Product:
        """A product with a weight of shape (outputs, inputs); ``bounded`` promises inputs from -1 to 1."""
        ...


@dataclass(frozen=True, slots=True)
class LinearBackend:
    """How a captioner multiplies in every step."""

    bottom: ProductFactory
    """Into the bottom layer and its sentinels."""
    top: ProductFactory
    """From there to the words, where a small error changes what is said."""


def dense(weight: Tensor, bias: Tensor | None = None, /, *, bounded: bool = False) -> Product:  # noqa: ARG001
    """Multiply with the weight as it is."""
    num_outputs, kept = len(weight), weight.clone().contiguous()
    if kept.is_cuda:
        kept, bias = pad_to_multiple(kept, bias)
    return lambda rows: functional.linear(rows, kept, bias)[:, :num_outputs]


def linear(
    rows: Float[Tensor, "rows inputs"], weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"]
) -> Float[Tensor, "rows outputs"]:
    """Multiply rows with a weight of any number of outputs, a whole vocabulary say, by a GPU's fast kernels."""
    if not rows.is_cuda or len(weight) % EVEN == 0:
        return functional.linear(rows, weight, bias)
    return functional.linear(rows, *pad_to_multiple(weight, bias))[:, : len(weight)]


def pad_to_multiple(
    weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None
) -> tuple[Float[Tensor, "more_outputs inputs"], Float[Tensor, " more_outputs"] | None]:
    """The same with outputs that are always 0, up to a multiple of 8: a GPU has slow kernels alone for other numbers.

    >>> pad_to_multiple(torch.ones(3, 2), None)[0].sum(1).tolist()
    [2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    missing = -len(weight) % EVEN
    return functional.pad(weight, (0, 0, 0, missing)), None if bias is None else functional.pad(bias, (0, missing))


@cache
def check_int8() -> None:
    """Refuse a CPU whose products of 8 bits are wrong: those without VNNI add pairs in 16 bits, where they overflow."""
    largest = _Int8(torch.ones(16, 64), None, levels=1, bounded=True)(torch.ones(4, 64))
    if not torch.allclose(largest, torch.full_like(largest, 64.0), rtol=1e-3):
        raise InputError("this CPU gets products of 8 bits wrong (no VNNI?): expected precision float32 on it")


def int8(weight: Tensor, bias: Tensor | None = None, /, *, bounded: bool = False) -> Product:
    """Multiply on a CPU with weights of 8 bits, a scale for each output."""
    return _Int8(weight, bias, levels=1, bounded=bounded)


def int8_twice(weight: Tensor, bias: Tensor | None = None, /, *, bounded: bool = False) -> Product:
    """The same with two numbers of 8 bits for each weight: what the first leaves over is rounded into the second."""
    return _Int8(weight, bias, levels=2, bounded=bounded)


DENSE = LinearBackend(dense, dense)
INT8 = LinearBackend(int8, int8_twice)
"""Chosen on agreement with float32 (``benchmarks/agreement.py``): with one level throughout too many words differ."""

_FINER = 254.0
"""How much finer the second level is: its whole range is one step of the first."""


class _Int8:
    """A caption is said a few rows at a time, so most time goes into reading weights, and 8 bits are a quarter.

    Rows are rounded to 8 bits too, but to two levels of them, which go through the product side by side: the weights
    are read once all the same.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, *, levels: int, bounded: bool) -> None:
        scales = (weight.abs().amax(dim=1) / 127).clamp(min=1e-12)
        coarse = (weight / scales[:, None]).round()
        stored, stored_scales = coarse, scales / 127 if bounded else scales
        if levels == 2:
            rest = ((weight / scales[:, None] - coarse) * _FINER).round()
            stored, stored_scales = torch.cat([coarse, rest]), torch.cat([stored_scales, stored_scales / _FINER])
        zeros = torch.zeros(len(stored), dtype=torch.long)
        with warnings.catch_warnings():
            # torch announces that such tensors will go, but has no other product of 8 bits that ran on our CPUs.
            warnings.filterwarnings("ignore", message=".*quantized tensor creation functions")
            quantised = torch._make_per_channel_quantized_tensor(
                stored.to(torch.int8), stored_scales.double(), zeros, 0
            )
        self._packed = torch.ops.quantized.linear_prepack(quantised, None)
        self._num_outputs, self._levels, self._bounded, self._bias = len(weight), levels, bounded, bias
        # torch chooses the range of the rows from their extremes: this row fixes it, so that whole numbers stay whole.
        self._extremes = torch.zeros(1, weight.shape[1])
        self._extremes[0, 0], self._extremes[0, -1] = 127.0, -128.0

    def __call__(self, rows: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        num_rows = len(rows)
        # What is known to lie from -1 to 1 needs no scale of its own: it is part of the stored ones.
        scale = None if self._bounded else rows.abs().amax(dim=1, keepdim=True).clamp_(min=1e-12).div_(127)
        scaled = rows * 127 if scale is None else rows / scale
        coarse = scaled.round()
        both = torch.cat([coarse, scaled.sub_(coarse).mul_(_FINER), self._extremes])
        parts: Tensor = torch.ops.quantized.linear_dynamic(both, self._packed, False)
        sums = torch.add(parts[:num_rows], parts[num_rows:-1], alpha=1 / _FINER)
        outputs = sums[:, : self._num_outputs]
        if self._levels == 2:
            outputs = outputs + sums[:, self._num_outputs :]
        if scale is not None:
            outputs.mul_(scale)
        return outputs if self._bias is None else outputs.add_(self._bias)


_Uses = list[tuple[Tensor, Tensor]]
"""Rows that came in and gradients that came back, of each use."""


class DeferredGradLinear:
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
