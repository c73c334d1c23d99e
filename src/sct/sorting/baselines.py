"""SVM Rank: a linear score learned from which of two sets is named first (the third row of the appendix's table).

Permutations that need no network: by detection probability, and by class (the first two rows of the appendix's table).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sct.errors import InputError
from sct.sorting.batches import SortingBatch
from sct.sorting.interface import Permutations, SorterInputs, argsort_masked
from sct.sorting.sinkhorn import true_places


@dataclass(frozen=True, slots=True, eq=False)
class SvmRank:
    """Sorts by a weighted sum of what the sorting network sees too."""

    weights: Float[Tensor, " values"]
    """Of a set's mean word vector, visual feature and position; the highest sum is spoken about first."""
    visual: bool
    """Whether visual features are among them."""

    @classmethod
    def fit(
        cls,
        batches: Iterable[SortingBatch],
        *,
        visual: bool,
        cost: float = 1.0,
        max_pairs: int = 50_000,
        seed: int = 0,
    ) -> "SvmRank":
        """Learn from pairs of sets of one control: the difference, first minus second, must come out above 0.

        Every other difference is turned around, as a support vector machine wants two classes. Beyond ``max_pairs``
        no more are read: of 2,352 values each, 50,000 take a gigabyte.
        """
        try:
            from sklearn.svm import LinearSVC  # noqa: PLC0415
        except ImportError as error:
            raise InputError("SVM Rank needs scikit-learn: pip install 'show-control-and-tell[train]'") from error
        found, total = [], 0
        for batch in batches:
            found.append(_differences(batch, visual=visual))
            total += len(found[-1])
            if total >= max_pairs:
                break
        if not total:
            raise InputError("no control has two region sets: expected some to learn an order from")
        differences = torch.cat(found)[:max_pairs].double().cpu().numpy()
        scale = np.sqrt(np.square(differences).mean(axis=0))
        scale[scale == 0] = 1.0  # a value that never differs tells nothing, whatever its scale
        if len(differences) == 1:
            differences = differences.repeat(2, axis=0)
        signs = np.resize([1, -1], len(differences))
        pairs = differences / scale * signs[:, None]
        machine = LinearSVC(C=cost, fit_intercept=False, dual="auto", random_state=seed).fit(pairs, signs)
        return cls(torch.from_numpy(machine.coef_[0] / scale).float(), visual)

    def order(self, inputs: SorterInputs) -> Permutations:
        """Highest sum first."""
        values = inputs.region_features(visual=self.visual)
        if values.shape[1] != len(self.weights):
            raise InputError(
                f"regions are described by {values.shape[1]} values: expected {len(self.weights)}, as SVM Rank was "
                "trained with; give it the same word vectors and features"
            )
        sums = inputs.set_means((values @ self.weights.to(values.device))[:, None])[:, :, 0]
        return argsort_masked(-sums, inputs.mask)


def _differences(batch: SortingBatch, *, visual: bool) -> Float[Tensor, "pairs values"]:
    """First minus second, for each pair of sets of a control."""
    inputs = batch.inputs
    sets = inputs.set_means(inputs.region_features(visual=visual))
    in_order = torch.take_along_dim(sets, batch.truth[:, :, None], dim=1)
    both = inputs.mask[:, :, None] & inputs.mask[:, None, :]
    example, first, second = torch.triu(both, diagonal=1).nonzero(as_tuple=True)
    return in_order[example, first] - in_order[example, second]


_ANYWHERE = 0.5
"""The relative place of a class that training never saw."""


class ProbabilityOrder:
    """What the detector is surest of comes first; a set counts as its surest region."""

    def order(self, inputs: SorterInputs) -> Permutations:
        """Highest score first."""
        if inputs.scores is None:
            raise InputError(
                "the regions have no scores, so they have no order by detection probability: expected regions of a "
                "detector; boxes that people drew have none"
            )
        surest = inputs.scores[inputs.set_rows].masked_fill(~inputs.set_mask, -torch.inf).amax(dim=2)
        return argsort_masked(-surest, inputs.mask)


@dataclass(frozen=True, slots=True)
class ClassOrder:
    """One order of all classes, for every image: by where in a sentence each class is named on average."""

    place_of_class: Mapping[str, float]
    """From 0, always named first, to 1, always named last."""

    @classmethod
    def fit(cls, batches: Iterable[SortingBatch]) -> "ClassOrder":
        """Learn the mean relative place of each class; controls of one set have no places and tell nothing."""
        total: dict[str, float] = {}
        count: dict[str, float] = {}
        for batch in batches:
            inputs = batch.inputs
            last = inputs.mask.sum(dim=1, keepdim=True) - 1
            relative = true_places(batch.truth).double() / last.clamp(min=1)  # (examples, slots)
            counted = inputs.set_mask & (last > 0)[:, :, None]
            rows = inputs.region_class[inputs.set_rows[counted]]
            # A set of ten sheep says once where sheep are named, not ten times.
            weights = (counted / inputs.set_mask.sum(dim=2, keepdim=True).clamp(min=1))[counted].double()
            places = relative[:, :, None].expand(counted.shape)[counted]
            size = len(inputs.class_names)
            summed = torch.bincount(rows, weights * places, minlength=size).tolist()
            weighed = torch.bincount(rows, weights, minlength=size).tolist()
            for name, place, weight in zip(inputs.class_names, summed, weighed, strict=True):
                if name is not None and weight > 0:
                    total[name] = total.get(name, 0.0) + place
                    count[name] = count.get(name, 0.0) + weight
        if not total:
            raise InputError("no control has two region sets with classes: expected some to learn an order from")
        return cls({name: total[name] / count[name] for name in sorted(total)})

    def order(self, inputs: SorterInputs) -> Permutations:
        """Classes that are named early come first; a class that is not known counts as named in the middle."""
        return argsort_masked(inputs.set_means(self._places(inputs)[:, None])[:, :, 0], inputs.mask)

    def _places(self, inputs: SorterInputs) -> Float[Tensor, " regions"]:
        known = [self.place_of_class.get(name, _ANYWHERE) if name else _ANYWHERE for name in inputs.class_names]
        return torch.tensor(known, dtype=torch.float64, device=inputs.mask.device)[inputs.region_class]
