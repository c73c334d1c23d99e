"""SVM Rank: a linear score learned from which of two sets is named first (the third row of the appendix's table)."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sct.errors import InputError
from sct.sorting.inputs import SortingInputs
from sct.sorting.orders import Orders, order_by
from sct.sorting.table import SortingBatch


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
            from sklearn.svm import LinearSVC  # noqa: PLC0415 - heavy, and needed by nothing else
        except ImportError as error:
            raise InputError("SVM Rank needs scikit-learn: pip install 'show-control-and-tell[train]'") from error
        found, total = [], 0
        for batch in batches:
            found.append(_differences(batch, visual=visual))
            total += len(found[-1])
            if total >= max_pairs:
                break
        if not total:
            raise InputError("no control has two region sets: wanted some to learn an order from")
        differences = torch.cat(found)[:max_pairs].double().cpu().numpy()
        scale = np.sqrt(np.square(differences).mean(axis=0))
        scale[scale == 0] = 1.0  # a value that never differs tells nothing, whatever its scale
        if len(differences) == 1:
            differences = differences.repeat(2, axis=0)
        signs = np.resize([1, -1], len(differences))
        pairs = differences / scale * signs[:, None]
        machine = LinearSVC(C=cost, fit_intercept=False, dual="auto", random_state=seed).fit(pairs, signs)
        return cls(torch.from_numpy(machine.coef_[0] / scale).float(), visual)

    def order(self, inputs: SortingInputs) -> Orders:
        """Highest sum first."""
        values = inputs.region_features(visual=self.visual)
        if values.shape[1] != len(self.weights):
            raise InputError(
                f"regions are described by {values.shape[1]} values: wanted {len(self.weights)}, as SVM Rank was "
                "trained with; give it the same word vectors and features"
            )
        sums = inputs.set_means((values @ self.weights.to(values.device))[:, None])[:, :, 0]
        return order_by(-sums, inputs.mask)


def _differences(batch: SortingBatch, *, visual: bool) -> Float[Tensor, "pairs values"]:
    """First minus second, for each pair of sets of a control."""
    inputs = batch.inputs
    sets = inputs.set_means(inputs.region_features(visual=visual))
    in_order = torch.take_along_dim(sets, batch.truth[:, :, None], dim=1)
    both = inputs.mask[:, :, None] & inputs.mask[:, None, :]
    example, first, second = torch.triu(both, diagonal=1).nonzero(as_tuple=True)
    return in_order[example, first] - in_order[example, second]
