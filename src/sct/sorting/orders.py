"""Orders of region sets, and the one contract of everything that finds them."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.sorting.inputs import SortingInputs


@dataclass(frozen=True, slots=True, eq=False)
class Orders:
    """In which order each control of a batch is to be spoken about."""

    order: Int[Tensor, "examples slots"]
    """The slot that is spoken about first, second, ...; a permutation, in which padding keeps its place."""
    mask: Bool[Tensor, "examples slots"]
    """Which places of ``order`` are real: the first ``num_slots`` of each control."""
    probability: Float[Tensor, " examples"] | None = None
    """How probable the order is beside all others, from 0 to 1; None where a sorter knows no probabilities."""

    def lists(self) -> list[list[int]]:
        """The orders without padding.

        >>> Orders(torch.tensor([[1, 0, 2]]), torch.tensor([[True, True, False]])).lists()
        [[1, 0]]
        """
        counts = self.mask.sum(dim=1).tolist()
        return [order[:count] for order, count in zip(self.order.tolist(), counts, strict=True)]


@runtime_checkable
class Sorter(Protocol):
    """Puts the region sets of controls in order."""

    def order(self, inputs: SortingInputs) -> Orders:
        """The order of each control; which of two sets comes first that look the same to it, is up to the sorter."""
        ...


def order_by(keys: Float[Tensor, "examples slots"], mask: Bool[Tensor, "examples slots"]) -> Orders:
    """Smallest key first; equal keys keep the order they came in.

    >>> order_by(torch.tensor([[0.5, 0.1, 0.5, 0.0]]), torch.tensor([[True, True, True, False]])).lists()
    [[1, 0, 2]]
    """
    return Orders(keys.masked_fill(~mask, torch.inf).argsort(dim=1, stable=True), mask)
