"""The first layer of a sorting network in 8 bits: of all that it computes for a picture's features, nine tenths."""

import copy
from functools import cache
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sct.errors import InputError
from sct.sorting.network import SortingNetwork

Precision = Literal["float32", "int8"]

_HALF = 128


class RoundedLinear(nn.Module):
    """A linear layer in 8 bits, for CPUs: weights have a scale for each output, and each row that comes in has its own.

    It cannot be trained. What comes out for a row does not depend on those beside it.
    """

    def __init__(self, layer: nn.Linear) -> None:
        """Round the weights of a layer, which stays as it is."""
        super().__init__()
        weight = layer.weight.detach()
        scales = (weight.abs().amax(dim=1) / 127).clamp(min=1e-12)
        rounded = (weight / scales[:, None]).round()
        self._columns = rounded.to(torch.int8).t().contiguous()
        self._scales = scales
        bias = torch.zeros_like(scales) if layer.bias is None else layer.bias.detach()
        self._offsets = torch.stack([rounded.sum(dim=1) * scales, bias])

    def forward(self, rows: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """Multiply."""
        # Made for tables of embeddings, but nothing else rounds row by row in one go: a number is step * byte + least,
        # with bytes from 0 to 255; step and least follow in 8 bytes after each row.
        packed = torch.ops.quantized.embedding_bag_byte_prepack(rows.contiguous())
        steps, least = packed[:, rows.shape[1] :].contiguous().view(torch.float32).split(1, dim=1)
        signed = (packed[:, : rows.shape[1]] ^ _HALF).view(torch.int8)  # byte - 128
        sums = torch._int_mm(signed, self._columns).float()
        shifts = torch.cat([steps * _HALF + least, torch.ones_like(least)], dim=1)
        return sums.mul_(steps).mul_(self._scales).addmm_(shifts, self._offsets)


def with_precision(network: SortingNetwork, precision: Precision) -> SortingNetwork:
    """The network itself, or for ``int8`` a copy that looks at features in 8 bits; without features nothing changes."""
    if precision not in get_args(Precision):
        raise InputError(f"precision {precision!r}: wanted {' or '.join(get_args(Precision))}")
    if precision == "float32" or not isinstance(network.visual, nn.Linear):
        return network
    if network.visual.weight.device.type != "cpu":
        raise InputError(f"int8 is for CPUs, and the sorter is on {network.visual.weight.device}: wanted float32 there")
    check_rounded_products()
    rounded = copy.deepcopy(network)
    rounded.visual = RoundedLinear(network.visual)
    return rounded.eval()


@cache
def check_rounded_products() -> None:
    """Refuse a CPU whose products of 8 bits are wrong: those without VNNI add pairs in 16 bits, where they overflow."""
    layer = nn.Linear(64, 16, bias=False)
    nn.init.ones_(layer.weight)
    largest = RoundedLinear(layer)((torch.arange(64) < 32).float().expand(32, -1))
    if not torch.allclose(largest, torch.full_like(largest, 32.0), rtol=1e-3):
        raise InputError("this CPU gets products of 8 bits wrong (no VNNI?): wanted precision float32 on it")
