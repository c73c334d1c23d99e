"""LSTM layers: one step at a time, as captions are said, and laid out for many steps, as they are learned from."""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional

from sct.model.late_products import LateProduct
from sct.model.parts import lstm_step


class Memory(NamedTuple):
    """What an LSTM layer remembers."""

    hidden: Float[Tensor, "rows hidden"]
    cell: Float[Tensor, "rows hidden"]

    def select(self, rows: Int[Tensor, " chosen"]) -> "Memory":
        """That of the chosen rows."""
        return Memory(self.hidden.index_select(0, rows), self.cell.index_select(0, rows))

    def repeat(self, times: int) -> "Memory":
        """That of each row several times in a row."""
        return Memory(repeat_rows(self.hidden, times), repeat_rows(self.cell, times))


def no_memory(rows: int, size: int, like: Tensor) -> Memory:
    """Before the first step."""
    zeros = like.new_zeros(rows, size)
    return Memory(zeros, zeros)


class Layer(nn.LSTMCell):
    """An LSTM layer whose input may come in parts; it works in whatever precision its products come in."""

    def remember(self, inputs: Float[Tensor, "rows inputs"], memory: Memory) -> Memory:
        """Take one step."""
        gates = functional.linear(inputs, self.weight_ih, self.bias_ih)
        more = functional.linear(memory.hidden, self.weight_hh, self.bias_hh)
        return Memory(*lstm_step(gates, more, memory.cell))


class LateLayer:
    """A layer for all steps of one forward pass: some inputs come up on the way, others are known before the first.

    What is known is multiplied for all steps at once. What recurs goes through one product at each step, which learns
    late (``sct.model.late_products``).
    """

    def __init__(self, layer: Layer, *, recurring: int, known: Sequence[int], dtype: torch.dtype) -> None:
        """Of the layer's inputs the first ``recurring`` are not known before; the sizes of those that are follow."""
        # Taken apart once: the gradient of each part taken alone is a whole weight, full of zeros.
        from_recurring, *self._from_known = layer.weight_ih.to(dtype).split([recurring, *known], dim=1)
        weight = torch.cat([from_recurring, layer.weight_hh.to(dtype)], dim=1)
        self._product = LateProduct(weight, (layer.bias_ih + layer.bias_hh).to(dtype))
        self._nothing: Tensor | None = None

    def of_known(self, *parts: Float[Tensor, "..."]) -> Float[Tensor, "*steps rows gates"]:
        """What all inputs that are known before add to the gates; one that never changes has rows alone."""
        return reduce(torch.add, map(functional.linear, parts, self._from_known))

    def remember(
        self, recurring: Sequence[Float[Tensor, "rows _"]], known: Float[Tensor, "rows gates"] | None, memory: Memory
    ) -> Memory:
        """Take one step; ``known`` is what ``of_known`` gave for it, None where nothing was known."""
        rows = torch.cat([*recurring, memory.hidden], dim=1) if recurring else memory.hidden
        gates = self._product(rows)
        if known is None:
            self._nothing = known = torch.zeros_like(gates) if self._nothing is None else self._nothing
        return Memory(*lstm_step(gates, known, memory.cell))


def repeat_rows(table: Shaped[Tensor, "rows ..."], times: int) -> Shaped[Tensor, "more_rows ..."]:
    """Each row several times in a row.

    >>> repeat_rows(torch.tensor([3, 4]), 2).tolist()
    [3, 3, 4, 4]
    """
    return table if times == 1 else table.repeat_interleave(times, dim=0)
