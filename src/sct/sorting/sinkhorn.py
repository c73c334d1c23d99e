"""The Sinkhorn operator: from a square of scores to a soft permutation (appendix A).

Rows and columns are normalised in turn. All of it happens to logarithms, so that no score is too large.
"""

from math import log

import torch
from jaxtyping import Bool, Float
from torch import Tensor

REFERENCE_EPSILON = 1e-7
"""What the authors' code adds to every sum before it divides."""


def sinkhorn(
    scores: Float[Tensor, "examples sets places"],
    mask: Bool[Tensor, "examples sets"],
    *,
    iterations: int = 20,
    temperature: float = 0.1,
    columns_first: bool = False,
    epsilon: float = 0.0,
) -> Float[Tensor, "examples sets places"]:
    """Turn each square of scores into one whose rows and columns sum to 1.

    ``mask`` says which sets, and thereby which places, are real; padding is matched with itself and touches nothing
    else. What is normalised last sums to 1 exactly, the other nearly so: columns in the paper, rows in the authors'
    code, which starts with the columns.

    >>> soft = sinkhorn(torch.tensor([[[0.1, 0.2], [0.2, 0.1]]]), torch.tensor([[True, True]]))
    >>> [[round(entry, 3) for entry in row] for row in soft[0].tolist()]  # e / (1 + e), as 0.1 more is e times as much
    [[0.269, 0.731], [0.731, 0.269]]
    """
    # The batch goes last: sums over ten neighbours are slow, sums over ten rows of a thousand are not.
    logits = _padded(scores / temperature, mask).movedim(0, -1)
    axes = (0, 1) if columns_first else (1, 0)
    for _ in range(iterations):
        for axis in axes:
            # The same with and without an epsilon of 0, but one operation instead of seven.
            logits = logits - _log_sum(logits, axis, epsilon) if epsilon else logits.log_softmax(dim=axis)
    # Over the mask again: with an epsilon padding is not quite 1.
    return logits.exp().movedim(-1, 0) * (mask[:, :, None] & mask[:, None, :])


def _padded(
    logits: Float[Tensor, "examples sets places"], mask: Bool[Tensor, "examples sets"]
) -> Float[Tensor, "examples sets places"]:
    """Scores of the real block; padding has 0 on the diagonal, so that each sum has a term, and else no weight."""
    real = mask[:, :, None] & mask[:, None, :]
    diagonal = torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)
    return logits.masked_fill(~real, -torch.inf).masked_fill(~real & diagonal, 0.0)


def _log_sum(
    logits: Float[Tensor, "sets places examples"], axis: int, epsilon: float
) -> Float[Tensor, "#sets #places examples"]:
    # The shift cancels out of value and gradient alike.
    largest = logits.detach().amax(dim=axis, keepdim=True)
    total = (logits - largest).exp().sum(dim=axis, keepdim=True).log() + largest
    return torch.logaddexp(total, torch.full_like(total, log(epsilon)))
