"""The sorting network of appendix A: each region set gets a score for each place in the order, by itself."""

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn
from torch.nn import functional

from sct.errors import InputError
from sct.sorting.config import SorterConfig
from sct.sorting.inputs import SortingInputs
from sct.sorting.sinkhorn import REFERENCE_EPSILON, sinkhorn
from sct.sorting.table import SortingBatch

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

    def forward(self, inputs: SortingInputs) -> Float[Tensor, "examples slots slots"]:
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

    def soft_permutation(self, inputs: SortingInputs) -> Float[Tensor, "examples slots slots"]:
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

    def _region_scores(self, inputs: SortingInputs) -> Float[Tensor, "regions places"]:
        # Few classes are named by many regions, so each class goes through its layer once.
        of_class = functional.relu(self.word(inputs.class_vectors))
        starts = range(0, len(inputs.positions), _REGIONS_AT_ONCE)
        return torch.cat([self._some_scores(inputs, of_class, slice(s, s + _REGIONS_AT_ONCE)) for s in starts])

    def _some_scores(
        self, inputs: SortingInputs, of_class: Float[Tensor, "classes branch"], rows: slice
    ) -> Float[Tensor, "some places"]:
        parts = [of_class[inputs.region_class[rows]]]
        if self.visual is not None and self.visual_out is not None:
            hidden = functional.relu(self.visual(inputs.visual_features()[rows]))
            parts.append(functional.relu(self.visual_out(hidden)))
        joined = functional.relu(self.joined(torch.cat([*parts, inputs.positions[rows]], dim=1)))
        return torch.tanh(self.places(joined))

    def _empty_scores(self) -> Float[Tensor, " places"]:
        """What a slot of zeros gets."""
        weight = self.places.weight
        nothing = SortingInputs(
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

    def _check(self, inputs: SortingInputs) -> None:
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
