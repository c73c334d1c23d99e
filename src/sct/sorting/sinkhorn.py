"""The paper's sorter (section 3.3, appendix A): scoring network, Sinkhorn operator, losses, Hungarian assignment."""

import copy
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import permutations
from math import log
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn
from torch.nn import functional

from sct.errors import InputError, format_value
from sct.limits import MAX_ITERATIONS, MAX_LAYER_SIZE, MAX_REGION_SETS
from sct.models.config import Mode
from sct.models.linear import Int8BatchLinear, check_int8
from sct.sorting.batches import SorterBatch
from sct.sorting.interface import (
    GEOMETRY_SIZE,
    Permutations,
    Sorter,
    SorterInputs,
    SorterState,
    build_with_weights,
    check_sizes,
    invert_permutation,
)

PRINTED_TEMPERATURE, AUTHORS_TEMPERATURE = 1.0, 0.1
"""Eq. 15 as printed, exp(X), and the authors' released sorter, exp(X / 0.1)."""
SinkhornPrecision = Literal["float32", "int8"]
REFERENCE_EPSILON = 1e-7
"""Added by the authors' code to every sum before division."""
_VISUAL_HIDDEN, _BRANCH, _JOINT = 512, 128, 256
_CHUNK = 2500
"""Regions scored at a time, so that activations stay in the CPU cache."""
MAX_TEMPERATURE = 1_000_000
_MAX_ENUMERATED = 6
"""Sets up to which all permutations are enumerated (720)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SinkhornConfig:
    """Config of the network and of the Sinkhorn operator."""

    max_sets: int = 10
    """Maximum number of region sets: the network has one output per position."""
    word_size: int = 300
    """Size of class word vectors."""
    visual_size: int | None = 2048
    """Size of region features; None: class and geometry only."""
    mode: Mode = "paper"
    """The appendix as printed, or as in the authors' released code."""
    iterations: int = 20
    temperature: float = AUTHORS_TEMPERATURE
    """Divides the scores, which are in [-1, 1]; the lower, the closer to a permutation. 1 is the paper's exp(X)."""

    def __post_init__(self) -> None:
        """Check the values."""
        sizes = {"word_size": MAX_LAYER_SIZE, "visual_size": MAX_LAYER_SIZE}
        check_sizes(self, {"max_sets": MAX_REGION_SETS, **sizes, "iterations": MAX_ITERATIONS})
        if not isinstance(self.temperature, float | int) or not 0 < self.temperature <= MAX_TEMPERATURE:
            raise InputError(
                f"temperature is {format_value(self.temperature)}: expected a number above 0 and at most "
                f"{MAX_TEMPERATURE:,}, such as 0.1"
            )
        if self.mode not in get_args(Mode):
            raise InputError(f"mode is {format_value(self.mode)}: expected {' or '.join(get_args(Mode))}")


def sinkhorn(
    scores: Float[Tensor, "examples sets positions"],
    mask: Bool[Tensor, "examples sets"],
    *,
    iterations: int = 20,
    temperature: float = AUTHORS_TEMPERATURE,
    columns_first: bool = False,
    epsilon: float = 0.0,
) -> Float[Tensor, "examples sets positions"]:
    """Sinkhorn operator: normalise rows and columns alternately, in log space, into a soft permutation.

    ``mask`` marks the sets, and thereby the positions, that exist; padding is matched with itself. What is normalised
    last sums to 1 exactly, the other approximately: columns in the paper, rows in the authors' code, which starts with
    the columns.

    >>> soft = sinkhorn(torch.tensor([[[0.1, 0.2], [0.2, 0.1]]]), torch.tensor([[True, True]]))
    >>> [[round(entry, 3) for entry in row] for row in soft[0].tolist()]  # e / (1 + e)
    [[0.269, 0.731], [0.731, 0.269]]
    """
    # Batch last: reductions over ten rows of a thousand are faster than over ten neighbours.
    logits = _mask_logits(scores / temperature, mask).movedim(0, -1)
    axes = (0, 1) if columns_first else (1, 0)
    for _ in range(iterations):
        for axis in axes:
            # log_softmax is the case epsilon = 0 in one operation instead of seven.
            logits = logits - _logsumexp(logits, axis, epsilon) if epsilon else logits.log_softmax(dim=axis)
    # Masked again: with an epsilon, padding is not exactly 1.
    return logits.exp().movedim(-1, 0) * (mask[:, :, None] & mask[:, None, :])


def _mask_logits(
    logits: Float[Tensor, "examples sets positions"], mask: Bool[Tensor, "examples sets"]
) -> Float[Tensor, "examples sets positions"]:
    """Logits with -inf for padding, except 0 on its diagonal, so that every sum has a term."""
    exists = mask[:, :, None] & mask[:, None, :]
    diagonal = torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)
    return logits.masked_fill(~exists, -torch.inf).masked_fill(~exists & diagonal, 0.0)


def _logsumexp(
    logits: Float[Tensor, "sets positions examples"], axis: int, epsilon: float
) -> Float[Tensor, "#sets #positions examples"]:
    # The shift cancels in value and gradient.
    maximum = logits.detach().amax(dim=axis, keepdim=True)
    total = (logits - maximum).exp().sum(dim=axis, keepdim=True).log() + maximum
    return torch.logaddexp(total, torch.full_like(total, log(epsilon)))


class SinkhornNetwork(nn.Module):
    """Scores each region set for each position of the order, from class vector, visual feature and geometry."""

    def __init__(self, config: SinkhornConfig) -> None:
        super().__init__()
        self.config = config
        self.word_fc = nn.Linear(config.word_size, _BRANCH)
        self.visual_fc1: nn.Module | None = None
        self.visual_fc2: nn.Linear | None = None
        if config.visual_size is not None:
            self.visual_fc1 = nn.Linear(config.visual_size, _VISUAL_HIDDEN)
            self.visual_fc2 = nn.Linear(_VISUAL_HIDDEN, _BRANCH)
        num_branches = 1 if config.visual_size is None else 2
        self.joint_fc = nn.Linear(num_branches * _BRANCH + GEOMETRY_SIZE, _JOINT)
        self.position_head = nn.Linear(_JOINT, config.max_sets)

    def forward(self, inputs: SorterInputs) -> Float[Tensor, "examples slots slots"]:
        """Scores in [-1, 1] of sets (rows) for positions (columns); sets of several regions have the mean score.

        The authors' code uses the first region of a set only, and no masks: all ``max_sets`` slots compete, empty ones
        as a region of zeros. In reference mode there are therefore always ``max_sets`` slots.
        """
        self._check(inputs)
        scores = self._region_scores(inputs)
        if self.config.mode == "paper":
            return inputs.set_means(scores)[:, :, : inputs.mask.shape[1]]
        first = inputs.set_firsts(scores)
        padded = functional.pad(first, (0, 0, 0, self.config.max_sets - first.shape[1]))
        exists = functional.pad(inputs.mask, (0, self.config.max_sets - inputs.mask.shape[1]))
        return torch.where(exists[:, :, None], padded, self._empty_slot_scores())

    def soft_permutation(self, inputs: SorterInputs) -> Float[Tensor, "examples slots slots"]:
        """Probability of each set (row) at each position (column); rows and columns sum to 1."""
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

    def _region_scores(self, inputs: SorterInputs) -> Float[Tensor, "regions positions"]:
        # Many regions share few classes, so each class is embedded once.
        class_embedding = functional.relu(self.word_fc(inputs.class_vectors))
        starts = range(0, len(inputs.positions), _CHUNK)
        return torch.cat([self._chunk_scores(inputs, class_embedding, slice(s, s + _CHUNK)) for s in starts])

    def _chunk_scores(
        self, inputs: SorterInputs, class_embedding: Float[Tensor, "classes branch"], rows: slice
    ) -> Float[Tensor, "chunk positions"]:
        branches = [class_embedding[inputs.region_class[rows]]]
        if self.visual_fc1 is not None and self.visual_fc2 is not None:
            hidden = functional.relu(self.visual_fc1(inputs.require_features()[rows]))
            branches.append(functional.relu(self.visual_fc2(hidden)))
        joint = functional.relu(self.joint_fc(torch.cat([*branches, inputs.positions[rows]], dim=1)))
        return torch.tanh(self.position_head(joint))

    def _empty_slot_scores(self) -> Float[Tensor, " positions"]:
        """Scores of an empty slot, a region of zeros."""
        weight = self.position_head.weight
        empty = SorterInputs(
            class_names=(None,),
            class_vectors=weight.new_zeros(1, self.config.word_size),
            region_class=torch.zeros(1, dtype=torch.long, device=weight.device),
            positions=weight.new_zeros(1, GEOMETRY_SIZE),
            features=weight.new_zeros(1, self.config.visual_size or 1),
            set_rows=torch.zeros(1, 1, 1, dtype=torch.long, device=weight.device),
            set_mask=torch.ones(1, 1, 1, dtype=torch.bool, device=weight.device),
            mask=torch.ones(1, 1, dtype=torch.bool, device=weight.device),
        )
        return self._region_scores(empty)[0]

    def _check(self, inputs: SorterInputs) -> None:
        num_sets, max_sets = inputs.mask.shape[1], self.config.max_sets
        if num_sets > max_sets:
            raise InputError(
                f"got a control of {num_sets} region sets, expected at most {max_sets} for this sorter: remove "
                "some, or give them in order"
            )
        inputs.check_sizes(self.config.word_size, self.config.visual_size)


def reconstruction_loss(network: SinkhornNetwork, batch: SorterBatch) -> Float[Tensor, ""]:
    """Mean squared error between the shuffled sets and the true sequence times the soft permutation (appendix A).

    Sets are compared by the network's inputs: the mean over their regions, in reference mode the first region. Sets
    with equal inputs are interchangeable.
    """
    inputs = batch.inputs
    visual = network.config.visual_size is not None
    pool = inputs.set_means if network.config.mode == "paper" else inputs.set_firsts
    shuffled = pool(inputs.region_features(visual=visual))
    in_order = torch.take_along_dim(shuffled, batch.target[:, :, None], dim=1)
    soft = network.soft_permutation(inputs)[:, : shuffled.shape[1], : shuffled.shape[1]]
    squared_error = (soft @ in_order - shuffled).square().mean(dim=2)
    return squared_error[inputs.mask].mean()


def position_loss(network: SinkhornNetwork, batch: SorterBatch) -> Float[Tensor, ""]:
    """Mean negative log-probability of each set's true position.

    Not in the paper: it trains the order itself, while the reconstruction accepts any set with similar inputs.
    """
    inputs = batch.inputs
    soft = network.soft_permutation(inputs)[:, : batch.target.shape[1]]
    probability = torch.take_along_dim(soft, invert_permutation(batch.target)[:, :, None], dim=2)[:, :, 0]
    # Below this the gradient of the logarithm is useless.
    return -probability.clamp(min=1e-12).log()[inputs.mask].mean()


class SinkhornSorter(Sorter):
    """The paper's sorter: network, Sinkhorn operator, Hungarian assignment."""

    kind = "sinkhorn"

    def __init__(self, network: SinkhornNetwork, *, precision: SinkhornPrecision = "float32") -> None:
        """Use a network without copying it; ``int8`` copies its current weights."""
        self.network = network
        self._inference_network = with_precision(network, precision)

    @torch.no_grad()
    def order(self, inputs: SorterInputs) -> Permutations:
        """Permutation with the largest total probability."""
        soft = self._inference_network.soft_permutation(inputs)
        competing = inputs.mask if self.mode == "paper" else torch.ones_like(soft[:, :, 0]).bool()
        return hungarian_permutation(soft, inputs.mask, competing)

    @property
    def mode(self) -> Mode:
        """Mode of the network."""
        return self.network.config.mode

    @property
    def is_visual(self) -> bool:
        """Whether the network uses region features."""
        return self.network.config.visual_size is not None

    @property
    def max_sets(self) -> int | None:
        """Slots of the network."""
        return self.network.config.max_sets

    def with_precision(self, precision: SinkhornPrecision) -> "SinkhornSorter":
        """Sorter with the visual layer in int8, for many controls at once; a few regions are as fast in float32."""
        return SinkhornSorter(self.network, precision=precision)

    def state(self) -> SorterState:
        """Config and weights of the network."""
        return SorterState(asdict(self.network.config), self.network.state_dict())

    @classmethod
    def from_state(cls, state: SorterState, source: object) -> "SinkhornSorter":
        """Rebuild the network."""
        config = SinkhornConfig(**{"visual_size": None, **state.config})
        return cls(build_with_weights(lambda: SinkhornNetwork(config), state.weights, source))


def with_precision(network: SinkhornNetwork, precision: SinkhornPrecision) -> SinkhornNetwork:
    """The network, or for ``int8`` a copy with its visual layer, nine tenths of the work, in int8."""
    if precision not in get_args(SinkhornPrecision):
        raise InputError(f"precision is {precision!r}: expected {' or '.join(get_args(SinkhornPrecision))}")
    layer = network.visual_fc1
    if precision == "float32" or not isinstance(layer, nn.Linear):
        return network
    if layer.weight.device.type != "cpu":
        raise InputError(
            f"precision is 'int8' and the sorter is on {layer.weight.device}: int8 is for CPUs, use float32"
        )
    check_int8()
    quantized = copy.deepcopy(network)
    quantized.visual_fc1 = Int8BatchLinear(layer.weight, layer.bias)
    return quantized.eval()


def hungarian_permutation(
    soft: Float[Tensor, "examples rows rows"],
    mask: Bool[Tensor, "examples slots"],
    competing: Bool[Tensor, "examples rows"] | None = None,
) -> Permutations:
    """Permutation with the largest sum of entries (Hungarian assignment), with its probability.

    ``competing`` marks the leading rows that are assigned: the sets that exist, or in the authors' code empty slots
    too, which are then dropped.

    >>> soft = torch.tensor([[[0.75, 0.25], [0.25, 0.75]]])
    >>> permutations = hungarian_permutation(soft, torch.tensor([[True, True]]))
    >>> permutations.lists(), permutations.probability.tolist()  # the first position decides: 0.75 / (0.75 + 0.25)
    ([[0, 1]], [0.75])
    """
    counts = (mask if competing is None else competing).sum(dim=1).tolist()
    assigned = torch.from_numpy(_assign(soft.double().cpu().numpy(), counts)).to(soft.device)[:, : mask.shape[1]]
    order = assigned.masked_fill(~mask, soft.shape[1]).argsort(dim=1, stable=True)
    return Permutations(order, mask, _order_probability(soft, mask, order, assigned.gather(1, order)))


def _assign(
    soft: Float[np.ndarray, "examples rows rows"], counts: Sequence[int]
) -> Integer[np.ndarray, "examples rows"]:
    """Position of each of the leading rows; the other rows keep theirs."""
    positions = np.tile(np.arange(soft.shape[1]), (len(soft), 1))
    for example, count in enumerate(counts):
        positions[example, :count] = _assign_one(soft[example, :count, :count])
    return positions


def _assign_one(soft: Float[np.ndarray, "rows rows"]) -> Integer[np.ndarray, " rows"]:
    """Position of each row; for few rows, as users have, by enumeration, which avoids importing SciPy."""
    count = len(soft)
    if count <= _MAX_ENUMERATED:
        candidates = _all_permutations(count)
        best: np.ndarray = candidates[soft[np.arange(count), candidates].sum(axis=1).argmax()]
        return best
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415

    positions: np.ndarray = linear_sum_assignment(soft, maximize=True)[1]
    return positions


@cache
def _all_permutations(count: int) -> Integer[np.ndarray, "permutations rows"]:
    return np.array(list(permutations(range(count))), np.int64).reshape(-1, count)


def _order_probability(
    soft: Float[Tensor, "examples rows rows"],
    mask: Bool[Tensor, "examples slots"],
    order: Integer[Tensor, "examples slots"],
    positions: Integer[Tensor, "examples slots"],
) -> Float[Tensor, " examples"]:
    """Probability of sampling the order from the soft permutation, one position after the other.

    At each position the remaining sets compete by the entries of its column. These probabilities sum to 1 over all
    orders, unlike the product of entries, whose normaliser is the permanent.
    """
    # entries[e, i, k]: the i-th set of the order at the position of the k-th.
    entries = torch.take_along_dim(soft, order[:, :, None], dim=1)
    entries = torch.take_along_dim(entries, positions[:, None, :], dim=2)
    remaining = torch.tril(torch.ones_like(entries)) * mask[:, :, None]
    chosen = entries.diagonal(dim1=1, dim2=2)
    total = (entries * remaining).sum(dim=1)
    tiny = torch.finfo(soft.dtype).tiny
    probabilities = torch.where(mask, chosen.clamp(min=tiny) / total.clamp(min=tiny), 1.0)
    return probabilities.prod(dim=1)
