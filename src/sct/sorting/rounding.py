"""The first layer of a sorting network in 8 bits: of all that it computes for a picture's features, nine tenths."""

import copy
import warnings
from functools import cache
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sct.errors import InputError
from sct.sorting.network import SortingNetwork

Precision = Literal["float32", "int8"]


class RoundedLinear(nn.Module):
    """A linear layer with weights of 8 bits and a scale for each output, for CPUs; it cannot be trained.

    What comes in is rounded to 8 bits too, with one scale for all rows of a call: what comes out for a row depends a
    little on those beside it.
    """

    def __init__(self, layer: nn.Linear) -> None:
        """Round the weights of a layer, which stays as it is."""
        super().__init__()
        weight = layer.weight.detach()
        scales = (weight.abs().amax(dim=1) / 127).clamp(min=1e-12)
        stored = (weight / scales[:, None]).round().to(torch.int8)
        zeros = torch.zeros(len(weight), dtype=torch.long)
        with warnings.catch_warnings():
            # torch announces that such tensors will go, but has no other product of 8 bits that ran on our CPUs.
            warnings.filterwarnings("ignore", message=".*quantized tensor creation functions")
            quantised = torch._make_per_channel_quantized_tensor(stored, scales.double(), zeros, 0)
        bias = None if layer.bias is None else layer.bias.detach()
        self._packed = torch.ops.quantized.linear_prepack(quantised, bias)

    def forward(self, rows: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """Multiply."""
        product: Tensor = torch.ops.quantized.linear_dynamic(rows, self._packed, False)
        return product


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
    largest = RoundedLinear(layer)(torch.ones(4, 64))
    if not torch.allclose(largest, torch.full_like(largest, 64.0), rtol=1e-2):
        raise InputError("this CPU gets products of 8 bits wrong (no VNNI?): wanted precision float32 on it")
