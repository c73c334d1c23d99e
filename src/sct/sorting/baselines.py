"""Baseline sorters of the paper's appendix: detection probability, class order and SVM Rank."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sct.errors import InputError, format_value, missing_extra
from sct.sorting.batches import SorterBatch
from sct.sorting.interface import (
    Permutations,
    Sorter,
    SorterInputs,
    SorterState,
    argsort_masked,
    invert_permutation,
)
from sct.storage.state_dict import check_state_dict

_UNSEEN_POSITION = 0.5
"""Relative position of a class that training did not contain."""


class DetectionProbability(Sorter):
    """Highest detection score first; the score of a set is that of its best region."""

    kind = "detection_probability"

    def order(self, inputs: SorterInputs) -> Permutations:
        """Sort by descending score."""
        if inputs.scores is None:
            raise InputError(
                "the regions have no detection scores, expected some to sort by: use regions of a detector, not boxes "
                "that people drew"
            )
        best = inputs.scores[inputs.set_rows].masked_fill(~inputs.set_mask, -torch.inf).amax(dim=2)
        return argsort_masked(-best, inputs.mask)

    def state(self) -> SorterState:
        """Nothing to save."""
        return SorterState({}, {})

    @classmethod
    def from_state(cls, state: SorterState, source: object) -> "DetectionProbability":  # noqa: ARG003
        """Make one: it has no state."""
        return cls()


@dataclass(frozen=True, slots=True)
class ClassOrder(Sorter):
    """One order of all classes, by the mean relative position at which captions mention them."""

    kind = "class_order"

    position_of_class: Mapping[str, float]
    """From 0, always mentioned first, to 1, always last."""

    @classmethod
    def fit(cls, batches: Iterable[SorterBatch]) -> "ClassOrder":
        """Compute the mean relative position of each class; controls of one set are ignored."""
        total: dict[str, float] = {}
        count: dict[str, float] = {}
        for batch in batches:
            inputs = batch.inputs
            last = inputs.mask.sum(dim=1, keepdim=True) - 1
            relative = invert_permutation(batch.target).double() / last.clamp(min=1)  # (examples, slots)
            counted = inputs.set_mask & (last > 0)[:, :, None]
            classes = inputs.region_class[inputs.set_rows[counted]]
            # Each set has weight 1, so that a set of ten sheep does not count ten times.
            weights = (counted / inputs.set_mask.sum(dim=2, keepdim=True).clamp(min=1))[counted].double()
            positions = relative[:, :, None].expand(counted.shape)[counted]
            num_classes = len(inputs.class_names)
            sums = torch.bincount(classes, weights * positions, minlength=num_classes).tolist()
            weight_sums = torch.bincount(classes, weights, minlength=num_classes).tolist()
            for name, position, weight in zip(inputs.class_names, sums, weight_sums, strict=True):
                if name is not None and weight > 0:
                    total[name] = total.get(name, 0.0) + position
                    count[name] = count.get(name, 0.0) + weight
        if not total:
            raise InputError("got no control of two region sets with classes, expected some to learn an order from")
        return cls({name: total[name] / count[name] for name in sorted(total)})

    def order(self, inputs: SorterInputs) -> Permutations:
        """Sort by ascending mean position; unseen classes are in the middle."""
        positions = [
            self.position_of_class.get(name, _UNSEEN_POSITION) if name else _UNSEEN_POSITION
            for name in inputs.class_names
        ]
        by_region = torch.tensor(positions, dtype=torch.float64, device=inputs.mask.device)[inputs.region_class]
        return argsort_masked(inputs.set_means(by_region[:, None])[:, :, 0], inputs.mask)

    def state(self) -> SorterState:
        """Position of each class."""
        return SorterState(self.position_of_class, {})

    @classmethod
    def from_state(cls, state: SorterState, source: object) -> "ClassOrder":
        """Rebuild from the positions."""
        for name, position in state.config.items():
            if not isinstance(position, int | float) or not 0 <= position <= 1:
                raise InputError(
                    f"{source}: class {format_value(name)} is at {format_value(position)}, expected 0 to 1"
                )
        return cls(dict(state.config))


@dataclass(frozen=True, slots=True, eq=False)
class SvmRank(Sorter):
    """SVM Rank: a linear score of the Sinkhorn network's inputs, trained on pairs of sets."""

    kind = "svm_rank"

    weights: Float[Tensor, " values"]
    """Weights of a set's mean class vector, visual feature and position; the highest score comes first."""
    visual: bool
    """Whether visual features are used."""

    @classmethod
    def fit(
        cls,
        batches: Iterable[SorterBatch],
        *,
        visual: bool,
        cost: float = 1.0,
        max_pairs: int = 50_000,
        seed: int = 0,
    ) -> "SvmRank":
        """Fit a linear SVM to the differences between earlier and later sets of a control.

        Every other difference is negated, because an SVM needs two classes. At most ``max_pairs`` are used: 50,000 of
        2,352 values take a gigabyte.
        """
        try:
            from sklearn.svm import LinearSVC  # noqa: PLC0415
        except ImportError as error:
            raise missing_extra("SVM Rank", "train", error) from error
        parts, num_pairs = [], 0
        for batch in batches:
            parts.append(_pair_differences(batch, visual=visual))
            num_pairs += len(parts[-1])
            if num_pairs >= max_pairs:
                break
        if not num_pairs:
            raise InputError("got no control of two region sets, expected some to learn an order from")
        differences = torch.cat(parts)[:max_pairs].double().cpu().numpy()
        scale = np.sqrt(np.square(differences).mean(axis=0))
        scale[scale == 0] = 1.0  # a constant value carries no information, whatever its scale
        if len(differences) == 1:
            differences = differences.repeat(2, axis=0)
        signs = np.resize([1, -1], len(differences))
        pairs = differences / scale * signs[:, None]
        svm = LinearSVC(C=cost, fit_intercept=False, dual="auto", random_state=seed).fit(pairs, signs)
        return cls(torch.from_numpy(svm.coef_[0] / scale).float(), visual)

    def order(self, inputs: SorterInputs) -> Permutations:
        """Sort by descending score."""
        values = inputs.region_features(visual=self.visual)
        if values.shape[1] != len(self.weights):
            raise InputError(
                f"got regions of {values.shape[1]} values, expected {len(self.weights)}: use the word vectors and "
                "features that SVM Rank was trained with"
            )
        scores = inputs.set_means((values @ self.weights.to(values.device))[:, None])[:, :, 0]
        return argsort_masked(-scores, inputs.mask)

    @property
    def is_visual(self) -> bool:
        """Whether visual features are used."""
        return self.visual

    def state(self) -> SorterState:
        """Weights."""
        return SorterState({"visual": self.visual}, {"weights": self.weights})

    @classmethod
    def from_state(cls, state: SorterState, source: object) -> "SvmRank":
        """Rebuild from the weights."""
        sorter = cls(state.weights["weights"].float(), **state.config)
        check_state_dict(state.weights, {"weights": (sorter.weights.numel(),)}, source)
        if not isinstance(sorter.visual, bool):
            raise InputError(f"{source}: visual is {format_value(sorter.visual)}, expected true or false")
        return sorter


def _pair_differences(batch: SorterBatch, *, visual: bool) -> Float[Tensor, "pairs values"]:
    """Earlier minus later set, for each pair of sets of a control."""
    inputs = batch.inputs
    sets = inputs.set_means(inputs.region_features(visual=visual))
    in_order = torch.take_along_dim(sets, batch.target[:, :, None], dim=1)
    both = inputs.mask[:, :, None] & inputs.mask[:, None, :]
    example, first, second = torch.triu(both, diagonal=1).nonzero(as_tuple=True)
    return in_order[example, first] - in_order[example, second]
