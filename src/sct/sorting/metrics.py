"""Metrics of orders: exact accuracy and Kendall's tau (the two columns of the appendix's table)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from sct.errors import InputError
from sct.sorting.interface import Permutations, invert_permutation


@dataclass(frozen=True, slots=True)
class OrderScores:
    """Means over controls of two or more sets."""

    accuracy: float
    """Fraction of controls whose order is exactly right."""
    tau: float
    """Kendall's tau: 1 if all pairs are in the right order, -1 if none is."""
    controls: int


def score_orders(permutations: Permutations, target: Integer[Tensor, "examples slots"]) -> OrderScores:
    """Compare orders with the true ones; merge batches with ``merge_scores``.

    >>> mask = torch.ones(1, 3, dtype=torch.bool)
    >>> score_orders(Permutations(torch.tensor([[0, 2, 1]]), mask), torch.tensor([[0, 1, 2]]))  # (2 - 1) / 3
    OrderScores(accuracy=0.0, tau=0.3333333333333333, controls=1)
    """
    mask = permutations.mask
    counted = mask.sum(dim=1) > 1
    if not bool(counted.any()):
        raise InputError("got no control of two region sets, expected some whose order can be right or wrong")
    num_concordant = _num_concordant(permutations.order, target, mask)
    num_pairs = _pairs(mask).sum(dim=(1, 2)).clamp(min=1)
    tau = ((2 * num_concordant - num_pairs).double() / num_pairs)[counted]
    is_exact = (num_concordant == num_pairs)[counted]
    return OrderScores(is_exact.double().mean().item(), tau.mean().item(), int(counted.sum()))


def merge_scores(parts: Sequence[OrderScores]) -> OrderScores:
    """Scores of several batches together.

    >>> merge_scores([OrderScores(1.0, 1.0, 1), OrderScores(0.0, 0.5, 3)])
    OrderScores(accuracy=0.25, tau=0.625, controls=4)
    """
    total = sum(part.controls for part in parts)
    if not total:
        raise InputError("got no scores to merge, expected those of at least one batch")
    return OrderScores(
        sum(part.accuracy * part.controls for part in parts) / total,
        sum(part.tau * part.controls for part in parts) / total,
        total,
    )


def _pairs(mask: Bool[Tensor, "examples slots"]) -> Bool[Tensor, "examples slots slots"]:
    """Upper triangle of the pairs of sets that exist."""
    return torch.triu(mask[:, :, None] & mask[:, None, :], diagonal=1)


def _num_concordant(
    order: Integer[Tensor, "examples slots"],
    target: Integer[Tensor, "examples slots"],
    mask: Bool[Tensor, "examples slots"],
) -> Integer[Tensor, " examples"]:
    """Number of pairs of sets in the same order in both."""
    got, expected = invert_permutation(order), invert_permutation(target)
    same = (got[:, :, None] < got[:, None, :]) == (expected[:, :, None] < expected[:, None, :])
    return (same & _pairs(mask)).sum(dim=(1, 2))
