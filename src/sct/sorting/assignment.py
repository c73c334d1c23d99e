"""From a soft permutation to an order: Hungarian assignment at test (section 3.3), and how probable the order is."""

from collections.abc import Sequence
from functools import cache
from itertools import permutations

import numpy as np
import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from sct.sorting.inputs import SortingInputs
from sct.sorting.network import SortingNetwork
from sct.sorting.orders import Orders
from sct.sorting.rounding import Precision, with_precision

_MOST_TRIED = 6
"""Rows that are tried in all orders: 720 of them."""


class SinkhornSorter:
    """The paper's sorter: network, Sinkhorn operator, Hungarian assignment."""

    def __init__(self, network: SortingNetwork, *, precision: Precision = "float32") -> None:
        """Take a network as it is; it is not copied, but for ``int8``, which sees what it is now."""
        self.network = network
        self._seeing = with_precision(network, precision)

    @torch.no_grad()
    def order(self, inputs: SortingInputs) -> Orders:
        """The order that agrees most with the soft permutation."""
        soft = self._seeing.soft_permutation(inputs)
        competing = inputs.mask if self.network.config.mode == "paper" else torch.ones_like(soft[:, :, 0]).bool()
        return most_agreeing(soft, inputs.mask, competing)


def most_agreeing(
    soft: Float[Tensor, "examples rows rows"],
    mask: Bool[Tensor, "examples slots"],
    competing: Bool[Tensor, "examples rows"] | None = None,
) -> Orders:
    """The permutation with the largest sum of entries, exactly.

    ``competing`` are the first rows, which share out as many places: the real sets, or in the authors' code empty slots
    too, which are dropped from what comes out.

    >>> soft = torch.tensor([[[0.75, 0.25], [0.25, 0.75]]])
    >>> orders = most_agreeing(soft, torch.tensor([[True, True]]))
    >>> orders.lists(), orders.probability.tolist()  # the first place settles it: 0.75 / (0.75 + 0.25)
    ([[0, 1]], [0.75])
    """
    counts = (mask if competing is None else competing).sum(dim=1).tolist()
    # Sets by their places; padding after them, in the order it has.
    places = torch.from_numpy(_hungarian(soft.double().cpu().numpy(), counts)).to(soft.device)[:, : mask.shape[1]]
    order = places.masked_fill(~mask, soft.shape[1]).argsort(dim=1, stable=True)
    return Orders(order, mask, _probability(soft, mask, order, places.gather(1, order)))


def _hungarian(
    soft: Float[np.ndarray, "examples rows rows"], counts: Sequence[int]
) -> Integer[np.ndarray, "examples rows"]:
    """The place of each of the first rows; the others keep theirs."""
    found = np.tile(np.arange(soft.shape[1]), (len(soft), 1))
    for example, count in enumerate(counts):
        found[example, :count] = _best_places(soft[example, :count, :count])
    return found


def _best_places(soft: Float[np.ndarray, "rows rows"]) -> Integer[np.ndarray, " rows"]:
    """The place of each row; few rows, as a user points at, are tried in all orders."""
    count = len(soft)
    if count <= _MOST_TRIED:
        orders = _all_orders(count)
        best: np.ndarray = orders[soft[np.arange(count), orders].sum(axis=1).argmax()]
        return best
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  to import it takes longer than a caption

    places: np.ndarray = linear_sum_assignment(soft, maximize=True)[1]
    return places


@cache
def _all_orders(count: int) -> Integer[np.ndarray, "orders rows"]:
    return np.array(list(permutations(range(count))), np.int64).reshape(-1, count)


def _probability(
    soft: Float[Tensor, "examples rows rows"],
    mask: Bool[Tensor, "examples slots"],
    order: Integer[Tensor, "examples slots"],
    places: Integer[Tensor, "examples slots"],
) -> Float[Tensor, " examples"]:
    """The chance of drawing this order from the soft permutation, place after place.

    At each place the sets that are left compete by their entries in its column. Over all orders of a control these
    chances sum to 1, which the plain product of entries does not; to scale that would take the permanent.
    """
    # entries[e, i, k]: how much the set that comes i-th belongs to the place of the set that comes k-th.
    entries = torch.take_along_dim(soft, order[:, :, None], dim=1)
    entries = torch.take_along_dim(entries, places[:, None, :], dim=2)
    left = torch.tril(torch.ones_like(entries)) * mask[:, :, None]
    taken = entries.diagonal(dim1=1, dim2=2)
    rivals = (entries * left).sum(dim=1)
    tiny = torch.finfo(soft.dtype).tiny
    chances = torch.where(mask, (taken.clamp(min=tiny) / rivals.clamp(min=tiny)), 1.0)
    return chances.prod(dim=1)
