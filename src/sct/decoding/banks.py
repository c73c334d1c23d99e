"""Which candidates a beam keeps."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def best(ranks: Float[Tensor, "examples candidates"], num_kept: int) -> Int[Tensor, "examples kept"]:
    """The highest-ranked candidates, best first; of equals the first, which a plain top-k would leave to chance."""
    return ranks.sort(dim=-1, descending=True, stable=True).indices[:, :num_kept]


def best_of_banks(
    ranks: Float[Tensor, "examples candidates"],
    banks: Int[Tensor, "examples candidates"],
    num_banks: int,
    num_kept: int,
) -> Int[Tensor, "examples kept"]:
    """Let each bank in turn give its best candidate until the beam is full, the highest bank first.

    A bank holds the hypotheses that have said equally many required words. Those that said fewer are likelier, and
    would crowd out the others were there one ranking; a bank with nothing left to give leaves its turn to the rest.
    (After the dynamic beam allocation of Post and Vilar, 2018.)

    >>> ranks = torch.tensor([[-1.0, -2.0, -3.0, -9.0, -torch.inf]])
    >>> best_of_banks(ranks, torch.tensor([[0, 0, 0, 1, 2]]), num_banks=3, num_kept=3)
    tensor([[3, 0, 1]])
    """
    order = ranks.sort(dim=-1, descending=True, stable=True).indices
    banks = banks.gather(-1, order)
    in_bank = banks[..., None] == torch.arange(num_banks, device=banks.device)
    place_in_bank = in_bank.cumsum(1).gather(-1, banks[..., None]).squeeze(-1) - 1
    turn = place_in_bank * num_banks + (num_banks - 1 - banks)
    turn = turn.masked_fill(ranks.gather(-1, order) == -torch.inf, ranks.shape[-1] * num_banks)
    return order.gather(-1, turn.sort(dim=-1, stable=True).indices[:, :num_kept])
