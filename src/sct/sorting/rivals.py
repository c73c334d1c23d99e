"""Orders that need no network: by detection probability, and by class (the first two rows of the appendix's table)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sct.errors import InputError
from sct.sorting.inputs import SortingInputs
from sct.sorting.network import true_places
from sct.sorting.orders import Orders, order_by
from sct.sorting.table import SortingBatch

_ANYWHERE = 0.5
"""The relative place of a class that training never saw."""


class ProbabilityOrder:
    """What the detector is surest of comes first; a set counts as its surest region."""

    def order(self, inputs: SortingInputs) -> Orders:
        """Highest score first."""
        if inputs.scores is None:
            raise InputError(
                "the regions have no scores, so they have no order by detection probability: wanted regions of a "
                "detector; boxes that people drew have none"
            )
        surest = inputs.scores[inputs.set_rows].masked_fill(~inputs.set_mask, -torch.inf).amax(dim=2)
        return order_by(-surest, inputs.mask)


@dataclass(frozen=True, slots=True)
class ClassOrder:
    """One order of all classes, for every picture: by where in a sentence each class is named on average."""

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
            raise InputError("no control has two region sets with classes: wanted some to learn an order from")
        return cls({name: total[name] / count[name] for name in sorted(total)})

    def order(self, inputs: SortingInputs) -> Orders:
        """Classes that are named early come first; a class that is not known counts as named in the middle."""
        return order_by(inputs.set_means(self._places(inputs)[:, None])[:, :, 0], inputs.mask)

    def _places(self, inputs: SortingInputs) -> Float[Tensor, " regions"]:
        known = [self.place_of_class.get(name, _ANYWHERE) if name else _ANYWHERE for name in inputs.class_names]
        return torch.tensor(known, dtype=torch.float64, device=inputs.mask.device)[inputs.region_class]
