"""The Sinkhorn operator: from a square of scores to a soft permutation (appendix A).

Rows and columns are normalised in turn. All of it happens to logarithms, so that no score is too large.

The sorting network of appendix A: each region set gets a score for each place in the order, by itself.

The first layer of a sorting network in 8 bits: of all that it computes for an image's features, nine tenths.

From a soft permutation to an order: Hungarian assignment at test (section 3.3), and how probable the order is.
"""

import copy
from collections.abc import Sequence
from functools import cache
from itertools import permutations
from math import log
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn
from torch.nn import functional

from sct.errors import InputError
from sct.sorting.batches import SortingBatch
from sct.sorting.interface import Permutations, SorterConfig, SorterInputs

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


_VISUAL_HIDDEN, _BRANCH, _JOINED, _GEOMETRY = 512, 128, 256, 4
_REGIONS_AT_ONCE = 2500
"""What one layer leaves is then mostly in the cache when the next one wants it."""


class SortingNetwork(nn.Module):
    """Word vector of the class, visual feature, position and size -> a score for each place, from -1 to 1."""

    def __init__(self, config: SorterConfig) -> None:
        """Make the layers."""
        super().__init__()
        self.config = config
        self.word = nn.Linear(config.word_size, _BRANCH)
        self.visual: nn.Module | None = None
        self.visual_out: nn.Linear | None = None
        if config.visual_size is not None:
            self.visual = nn.Linear(config.visual_size, _VISUAL_HIDDEN)
            self.visual_out = nn.Linear(_VISUAL_HIDDEN, _BRANCH)
        self.joined = nn.Linear((1 if config.visual_size is None else 2) * _BRANCH + _GEOMETRY, _JOINED)
        self.places = nn.Linear(_JOINED, config.max_sets)

    def forward(self, inputs: SorterInputs) -> Float[Tensor, "examples slots slots"]:
        """Scores of sets (rows) for places (columns); a set of several regions has the mean of their scores.

        The authors' code looks at the first region alone. It also knows no padding: all ``max_sets`` slots take part,
        the empty ones as a region of zeros, so that in reference mode there are always as many.
        """
        self._check(inputs)
        scores = self._region_scores(inputs)
        if self.config.mode == "paper":
            return inputs.set_means(scores)[:, :, : inputs.mask.shape[1]]
        found = inputs.set_firsts(scores)
        padded = functional.pad(found, (0, 0, 0, self.config.max_sets - found.shape[1]))
        real = functional.pad(inputs.mask, (0, self.config.max_sets - inputs.mask.shape[1]))
        return torch.where(real[:, :, None], padded, self._empty_scores())

    def soft_permutation(self, inputs: SorterInputs) -> Float[Tensor, "examples slots slots"]:
        """How much each set (row) belongs to each place (column); rows and columns of real sets sum to 1."""
        config, scores = self.config, self(inputs)
        if config.mode == "paper":
            return sinkhorn(scores, inputs.mask, iterations=config.iterations, temperature=config.temperature)
        return sinkhorn(
            scores,
            torch.ones(scores.shape[:2], dtype=torch.bool, device=scores.device),
            iterations=config.iterations,
            temperature=config.temperature,
            columns_first=True,
            epsilon=REFERENCE_EPSILON,
        )

    def _region_scores(self, inputs: SorterInputs) -> Float[Tensor, "regions places"]:
        # Few classes are named by many regions, so each class goes through its layer once.
        class_embedding = functional.relu(self.word(inputs.class_vectors))
        starts = range(0, len(inputs.positions), _REGIONS_AT_ONCE)
        return torch.cat([self._some_scores(inputs, class_embedding, slice(s, s + _REGIONS_AT_ONCE)) for s in starts])

    def _some_scores(
        self, inputs: SorterInputs, class_embedding: Float[Tensor, "classes branch"], rows: slice
    ) -> Float[Tensor, "some places"]:
        parts = [class_embedding[inputs.region_class[rows]]]
        if self.visual is not None and self.visual_out is not None:
            hidden = functional.relu(self.visual(inputs.visual_features()[rows]))
            parts.append(functional.relu(self.visual_out(hidden)))
        joined = functional.relu(self.joined(torch.cat([*parts, inputs.positions[rows]], dim=1)))
        return torch.tanh(self.places(joined))

    def _empty_scores(self) -> Float[Tensor, " places"]:
        """What a slot of zeros gets."""
        weight = self.places.weight
        nothing = SorterInputs(
            class_names=(None,),
            class_vectors=weight.new_zeros(1, self.config.word_size),
            region_class=torch.zeros(1, dtype=torch.long, device=weight.device),
            positions=weight.new_zeros(1, _GEOMETRY),
            features=weight.new_zeros(1, self.config.visual_size or 1),
            set_rows=torch.zeros(1, 1, 1, dtype=torch.long, device=weight.device),
            set_mask=torch.ones(1, 1, 1, dtype=torch.bool, device=weight.device),
            mask=torch.ones(1, 1, dtype=torch.bool, device=weight.device),
        )
        return self._region_scores(nothing)[0]

    def _check(self, inputs: SorterInputs) -> None:
        most, came = self.config.max_sets, inputs.mask.shape[1]
        if came > most:
            raise InputError(
                f"a control has {came} region sets: this sorter puts at most {most} in order; leave some out, or give "
                "them in order"
            )
        inputs.check_sizes(self.config.word_size, self.config.visual_size)


def reconstruction_loss(network: SortingNetwork, batch: SortingBatch) -> Float[Tensor, ""]:
    """Mean square error between the scrambled sets and the true sequence put back by the soft permutation (app. A).

    It compares what the network sees of the sets: the mean over the regions of a set, in reference mode its first.
    Two sets that look the same may change places for free.
    """
    inputs = batch.inputs
    visual = network.config.visual_size is not None
    pooled = inputs.set_means if network.config.mode == "paper" else inputs.set_firsts
    scrambled = pooled(inputs.region_features(visual=visual))
    in_order = torch.take_along_dim(scrambled, batch.truth[:, :, None], dim=1)
    soft = network.soft_permutation(inputs)[:, : scrambled.shape[1], : scrambled.shape[1]]
    squares = (soft @ in_order - scrambled).square().mean(dim=2)
    return squares[inputs.mask].mean()


def place_loss(network: SortingNetwork, batch: SortingBatch) -> Float[Tensor, ""]:
    """Mean negative logarithm of how much each set belongs to its true place.

    Beyond the paper: it asks for the order itself, where the reconstruction is content with any set that looks alike.
    """
    inputs = batch.inputs
    soft = network.soft_permutation(inputs)[:, : batch.truth.shape[1]]
    of_true_place = torch.take_along_dim(soft, true_places(batch.truth)[:, :, None], dim=2)[:, :, 0]
    # A float32 below this is next to 0, where the logarithm has no useful gradient.
    return -of_true_place.clamp(min=1e-12).log()[inputs.mask].mean()


def true_places(truth: Integer[Tensor, "examples slots"]) -> Integer[Tensor, "examples slots"]:
    """The place of each slot, from the slot of each place.

    >>> true_places(torch.tensor([[2, 0, 1]])).tolist()
    [[1, 2, 0]]
    """
    return truth.argsort(dim=1)


Precision = Literal["float32", "int8"]

_HALF = 128


class Int8Linear(nn.Module):
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
        raise InputError(f"precision {precision!r}: expected {' or '.join(get_args(Precision))}")
    if precision == "float32" or not isinstance(network.visual, nn.Linear):
        return network
    if network.visual.weight.device.type != "cpu":
        raise InputError(
            f"int8 is for CPUs, and the sorter is on {network.visual.weight.device}: expected float32 there"
        )
    check_int8_products()
    rounded = copy.deepcopy(network)
    rounded.visual = Int8Linear(network.visual)
    return rounded.eval()


@cache
def check_int8_products() -> None:
    """Refuse a CPU whose products of 8 bits are wrong: those without VNNI add pairs in 16 bits, where they overflow."""
    layer = nn.Linear(64, 16, bias=False)
    nn.init.ones_(layer.weight)
    largest = Int8Linear(layer)((torch.arange(64) < 32).float().expand(32, -1))
    if not torch.allclose(largest, torch.full_like(largest, 32.0), rtol=1e-3):
        raise InputError("this CPU gets products of 8 bits wrong (no VNNI?): expected precision float32 on it")


_MOST_TRIED = 6
"""Rows that are tried in all orders: 720 of them."""


class SinkhornSorter:
    """The paper's sorter: network, Sinkhorn operator, Hungarian assignment."""

    def __init__(self, network: SortingNetwork, *, precision: Precision = "float32") -> None:
        """Take a network as it is; it is not copied, but for ``int8``, which sees what it is now."""
        self.network = network
        self._seeing = with_precision(network, precision)

    @torch.no_grad()
    def order(self, inputs: SorterInputs) -> Permutations:
        """The order that agrees most with the soft permutation."""
        soft = self._seeing.soft_permutation(inputs)
        competing = inputs.mask if self.network.config.mode == "paper" else torch.ones_like(soft[:, :, 0]).bool()
        return hungarian_permutation(soft, inputs.mask, competing)


def hungarian_permutation(
    soft: Float[Tensor, "examples rows rows"],
    mask: Bool[Tensor, "examples slots"],
    competing: Bool[Tensor, "examples rows"] | None = None,
) -> Permutations:
    """The permutation with the largest sum of entries, exactly.

    ``competing`` are the first rows, which share out as many places: the real sets, or in the authors' code empty slots
    too, which are dropped from what comes out.

    >>> soft = torch.tensor([[[0.75, 0.25], [0.25, 0.75]]])
    >>> orders = hungarian_permutation(soft, torch.tensor([[True, True]]))
    >>> orders.lists(), orders.probability.tolist()  # the first place settles it: 0.75 / (0.75 + 0.25)
    ([[0, 1]], [0.75])
    """
    counts = (mask if competing is None else competing).sum(dim=1).tolist()
    # Sets by their places; padding after them, in the order it has.
    places = torch.from_numpy(_hungarian(soft.double().cpu().numpy(), counts)).to(soft.device)[:, : mask.shape[1]]
    order = places.masked_fill(~mask, soft.shape[1]).argsort(dim=1, stable=True)
    return Permutations(order, mask, _probability(soft, mask, order, places.gather(1, order)))


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
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415

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
