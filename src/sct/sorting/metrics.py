"""How good orders are: wholly right ones, and Kendall's tau (the two columns of the appendix's table)."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from sct.errors import InputError
from sct.sorting.interface import Permutations
from sct.sorting.sinkhorn import true_places


@dataclass(frozen=True, slots=True)
class OrderScores:
    """Means over controls of two or more sets; one set is always in order and would only flatter."""

    accuracy: float
    """Share of controls whose order is wholly right."""
    tau: float
    """Kendall's: 1 where all pairs are as they should be, -1 where none is."""
    controls: int


def order_scores(orders: Permutations, truth: Integer[Tensor, "examples slots"]) -> OrderScores:
    """Compare orders with the true ones; add up batches with ``joined_scores``.

    >>> mask = torch.ones(1, 3, dtype=torch.bool)
    >>> order_scores(Permutations(torch.tensor([[0, 2, 1]]), mask), torch.tensor([[0, 1, 2]]))  # (2 - 1) / 3
    OrderScores(accuracy=0.0, tau=0.3333333333333333, controls=1)
    """
    mask = orders.mask
    counted = mask.sum(dim=1) > 1
    if not bool(counted.any()):
        raise InputError("no control has two region sets: expected some whose order can be right or wrong")
    agreeing = _agreement(orders.order, truth, mask)
    pairs = _pairs(mask).sum(dim=(1, 2)).clamp(min=1)
    tau = ((2 * agreeing - pairs).double() / pairs)[counted]
    right = (agreeing == pairs)[counted]
    return OrderScores(right.double().mean().item(), tau.mean().item(), int(counted.sum()))


def joined_scores(parts: list[OrderScores]) -> OrderScores:
    """The scores of several batches together.

    >>> joined_scores([OrderScores(1.0, 1.0, 1), OrderScores(0.0, 0.5, 3)])
    OrderScores(accuracy=0.25, tau=0.625, controls=4)
    """
    total = sum(part.controls for part in parts)
    if not total:
        raise InputError("there are no scores to join: expected those of one batch at least")
    return OrderScores(
        sum(part.accuracy * part.controls for part in parts) / total,
        sum(part.tau * part.controls for part in parts) / total,
        total,
    )


def _pairs(mask: Bool[Tensor, "examples slots"]) -> Bool[Tensor, "examples slots slots"]:
    """Each pair of real sets once."""
    return torch.triu(mask[:, :, None] & mask[:, None, :], diagonal=1)


def _agreement(
    found: Integer[Tensor, "examples slots"],
    truth: Integer[Tensor, "examples slots"],
    mask: Bool[Tensor, "examples slots"],
) -> Integer[Tensor, " examples"]:
    """How many pairs of sets stand in the same order in both."""
    ours, theirs = true_places(found), true_places(truth)
    same = (ours[:, :, None] < ours[:, None, :]) == (theirs[:, :, None] < theirs[:, None, :])
    return (same & _pairs(mask)).sum(dim=(1, 2))
