"""Linear layers of the fast implementation: dense, int8 on CPUs, and with deferred weight gradients for training.

A ``LinearBackend`` chooses one for the matrices that are multiplied at every step of a caption.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from sct.errors import InputError

TENSOR_CORE_MULTIPLE = 8
"""GPUs have fast kernels for numbers of outputs that are multiples of this."""
Linear = Callable[[Tensor], Tensor]
"""Multiplication by a fixed matrix: (rows, inputs) -> (rows, outputs)."""


@runtime_checkable
class LinearFactory(Protocol):
    """Constructor of a ``Linear``."""

    def __call__(self, weight: Tensor, bias: Tensor | None = None, /, *, bounded: bool = False) -> Linear:
        """Linear layer with a weight of shape (outputs, inputs); ``bounded`` promises inputs in [-1, 1]."""
        ...


@dataclass(frozen=True, slots=True)
class LinearBackend:
    """Linear layers of the two LSTMs of a model."""

    attention_layer: LinearFactory
    """For the attention LSTM and the sentinels."""
    language_layer: LinearFactory
    """For the language LSTM and the vocabulary projection, where a small error changes the caption."""


def dense_linear(weight: Tensor, bias: Tensor | None = None, /, *, bounded: bool = False) -> Linear:  # noqa: ARG001
    """Linear layer with a copy of the weight, in its own precision."""
    num_outputs, weight, bias = len(weight), weight.detach(), None if bias is None else bias.detach().clone()
    if weight.device.type == "cpu" and weight.dtype == torch.float32 and torch.backends.mkldnn.is_available():
        return _packed_linear(weight, bias)
    weight = weight.clone().contiguous()
    if weight.is_cuda:
        weight, bias = pad_to_multiple(weight, bias)
    return lambda rows: functional.linear(rows, weight, bias)[:, :num_outputs]


_PACKED_ROWS = 5
"""Rows that a packed weight is laid out for, those of a beam; also the faster layout for hundreds."""


def _packed_linear(weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None) -> Linear:
    """Linear layer with a weight in the blocked layout of oneDNN.

    ``functional.linear`` calls MKL, which reads the weight as it is: with five rows that takes 2.5 times as long.
    """
    # Operators of torch.compile, which packs the weights of frozen graphs with them.
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _PACKED_ROWS)

    def multiply(rows: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")
        return product

    return multiply


def padded_linear(
    rows: Float[Tensor, "rows inputs"], weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"]
) -> Float[Tensor, "rows outputs"]:
    """``functional.linear`` that pads the outputs on a GPU, for vocabularies of any size."""
    if not rows.is_cuda or len(weight) % TENSOR_CORE_MULTIPLE == 0:
        return functional.linear(rows, weight, bias)
    return functional.linear(rows, *pad_to_multiple(weight, bias))[:, : len(weight)]


def pad_to_multiple(
    weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None
) -> tuple[Float[Tensor, "more_outputs inputs"], Float[Tensor, " more_outputs"] | None]:
    """Append zero outputs up to a multiple of 8.

    >>> pad_to_multiple(torch.ones(3, 2), None)[0].sum(1).tolist()
    [2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    missing = -len(weight) % TENSOR_CORE_MULTIPLE
    return functional.pad(weight, (0, 0, 0, missing)), None if bias is None else functional.pad(bias, (0, missing))


# int8 ---------------------------------------------------------------------------------------------------------------

_FINER = 254.0
"""Resolution of the second int8 level: its whole range is one step of the first."""
_SIGN_BIT = 128


@cache
def check_int8() -> None:
    """Raise on CPUs whose int8 kernels overflow: without VNNI, pairs of products are added in 16 bits."""
    ones = torch.ones(16, 64)
    half = (torch.arange(64) < 32).float().expand(32, -1)
    outputs = [
        Int8Linear(ones, None, weight_levels=1, bounded=True)(torch.ones(4, 64)) / 2,
        Int8BatchLinear(ones)(half),
    ]
    if not all(torch.allclose(output, torch.full_like(output, 32.0), rtol=1e-3) for output in outputs):
        raise InputError("int8 products overflow on this CPU (no VNNI?), expected exact ones: use precision float32")


def _round_weight(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Weight rounded to multiples of one scale per output, in units of it, and the scales."""
    scales = (weight.abs().amax(dim=1) / 127).clamp(min=1e-12)
    return (weight / scales[:, None]).round(), scales


class Int8Linear:
    """int8 linear layer for a few rows at a time, as in decoding, where reading the weights takes most of the time.

    Inputs are rounded to two int8 levels, stacked as further rows, so that the weights are still read once.
    ``weight_levels=2`` stores the rounding error of each weight as a second int8 number.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, *, weight_levels: int, bounded: bool) -> None:
        coarse, scales = _round_weight(weight)
        stored, stored_scales = coarse, scales / 127 if bounded else scales
        if weight_levels == 2:
            error = ((weight / scales[:, None] - coarse) * _FINER).round()
            stored, stored_scales = torch.cat([coarse, error]), torch.cat([stored_scales, stored_scales / _FINER])
        zeros = torch.zeros(len(stored), dtype=torch.long)
        with warnings.catch_warnings():
            # Deprecated by torch, which has no other prepacked int8 kernel for CPUs.
            warnings.filterwarnings("ignore", message=".*quantized tensor creation functions")
            quantized = torch._make_per_channel_quantized_tensor(
                stored.to(torch.int8), stored_scales.double(), zeros, 0
            )
        self._packed = torch.ops.quantized.linear_prepack(quantized, None)
        self._num_outputs, self._weight_levels, self._bounded = len(weight), weight_levels, bounded
        self._bias = None if bias is None else bias.clone()
        # torch chooses the input range from the extreme values: this row fixes it, so that integers stay exact.
        self._extremes = torch.zeros(1, weight.shape[1])
        self._extremes[0, 0], self._extremes[0, -1] = 127.0, -128.0

    def __call__(self, rows: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """Multiply rows by the transposed weight and add the bias."""
        num_rows = len(rows)
        # The scale of bounded inputs is constant and part of the stored scales.
        scale = None if self._bounded else rows.abs().amax(dim=1, keepdim=True).clamp_(min=1e-12).div_(127)
        scaled = rows * 127 if scale is None else rows / scale
        coarse = scaled.round()
        levels = torch.cat([coarse, scaled.sub_(coarse).mul_(_FINER), self._extremes])
        products: Tensor = torch.ops.quantized.linear_dynamic(levels, self._packed, False)
        sums = torch.add(products[:num_rows], products[num_rows:-1], alpha=1 / _FINER)
        outputs = sums[:, : self._num_outputs]
        if self._weight_levels == 2:
            outputs = outputs + sums[:, self._num_outputs :]
        if scale is not None:
            outputs.mul_(scale)
        return outputs if self._bias is None else outputs.add_(self._bias)


class Int8BatchLinear(nn.Module):
    """int8 linear layer for many rows at once, as in sorting: three times as fast there as ``Int8Linear``.

    Each row is rounded to one int8 level with its own scale and offset, so outputs do not depend on other rows.
    """

    def __init__(self, weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None = None) -> None:
        super().__init__()
        rounded, scales = _round_weight(weight.detach())
        self._columns = rounded.to(torch.int8).t().contiguous()
        self._scales = scales
        self._offsets = torch.stack(
            [rounded.sum(dim=1) * scales, torch.zeros_like(scales) if bias is None else bias.detach()]
        )

    def forward(self, rows: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """Multiply rows by the transposed weight and add the bias."""
        # An operator for embedding tables, but the only one that quantizes row by row in one pass: value = step * byte
        # + offset with bytes from 0 to 255; step and offset are stored in the 8 bytes after each row.
        packed = torch.ops.quantized.embedding_bag_byte_prepack(rows.contiguous())
        steps, offsets = packed[:, rows.shape[1] :].contiguous().view(torch.float32).split(1, dim=1)
        signed = (packed[:, : rows.shape[1]] ^ _SIGN_BIT).view(torch.int8)  # byte - 128
        sums = torch._int_mm(signed, self._columns).float()
        shifts = torch.cat([steps * _SIGN_BIT + offsets, torch.ones_like(offsets)], dim=1)
        return sums.mul_(steps).mul_(self._scales).addmm_(shifts, self._offsets)


def int8_linear(weight: Tensor, bias: Tensor | None = None, /, *, bounded: bool = False) -> Linear:
    """``Int8Linear`` with one int8 number per weight."""
    return Int8Linear(weight, bias, weight_levels=1, bounded=bounded)


def int8_linear_two_levels(weight: Tensor, bias: Tensor | None = None, /, *, bounded: bool = False) -> Linear:
    """``Int8Linear`` with two int8 numbers per weight."""
    return Int8Linear(weight, bias, weight_levels=2, bounded=bounded)


# Deferred weight gradients ------------------------------------------------------------------------------------------

_Uses = list[tuple[Tensor, Tensor]]
"""Input rows and output gradients of each use."""


class DeferredGradLinear:
    """Linear layer of a recurrence whose weight gradient is computed once, by one large product after the last step.

    Autograd would compute it at every step and sum: one pass over the whole weight per step. Create a new one for
    every forward pass.
    """

    def __init__(self, weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None = None) -> None:
        self._uses: _Uses = []
        self._weight, self._bias = _Weights.apply(weight, bias, self._uses)  # type: ignore[no-untyped-call]

    def __call__(self, rows: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """Multiply rows by the transposed weight and add the bias."""
        product: Tensor = _Product.apply(rows, self._weight, self._bias, self._uses)  # type: ignore[no-untyped-call]
        return product


class _Weights(torch.autograd.Function):
    """Identity on the weights; autograd runs its backward after that of every use."""

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
        return functional.linear(rows, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None, None]:
        rows, weight = ctx.saved_tensors
        ctx.uses.append((rows, gradient))
        return gradient @ weight if ctx.needs_input_grad[0] else None, None, None, None


def deferred_grad_linear(weight: Tensor, bias: Tensor | None = None, /, *, bounded: bool = False) -> Linear:  # noqa: ARG001
    """``DeferredGradLinear`` of a weight in the autograd graph."""
    return DeferredGradLinear(weight, bias)


DENSE = LinearBackend(dense_linear, dense_linear)
INT8 = LinearBackend(int8_linear, int8_linear_two_levels)
"""Levels chosen by agreement with float32 (``benchmarks/quality``): with one level throughout, words differ."""
DEFERRED_GRAD = LinearBackend(deferred_grad_linear, deferred_grad_linear)
"""For training."""
