"""Permuted controls: region sets in another order than that of mention, or some of them only.

A captioner trained in the order of mention alone writes the sentence that suits the image, whatever is asked for.
"""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_IS_PERMUTED, _NUM_KEPT, _KEYS = 0, 1, 2
"""Columns of the noise; from the last on, a key by which each region set is sorted."""


@dataclass(frozen=True, slots=True, eq=False)
class ControlOrder:
    """Which of the region sets of its example each slot of a control takes."""

    sets: Int[Tensor, "examples slots"]
    num_slots: Int[Tensor, " examples"]
    """Slots that take a region set; further ones are padding."""
    is_permuted: Bool[Tensor, " examples"]
    """Whether it is not all region sets in the order of mention."""

    @classmethod
    def of_mention(cls, num_slots: Int[Tensor, " examples"], max_slots: int) -> "ControlOrder":
        """All region sets as the reference mentions them."""
        sets = torch.arange(max_slots, device=num_slots.device).expand(len(num_slots), -1)
        return cls(sets, num_slots, torch.zeros_like(num_slots, dtype=torch.bool))

    def to(self, device: torch.device | str) -> "ControlOrder":
        """Copy to a device."""
        return ControlOrder(*(getattr(self, field.name).to(device) for field in fields(self)))

    def select(self, examples: Int[Tensor, " captions"]) -> "ControlOrder":
        """Orders of some examples, which may repeat."""
        return ControlOrder(self.sets[examples], self.num_slots[examples], self.is_permuted[examples])

    def slots_of_sets(self) -> Int[Tensor, "examples sets"]:
        """The slot that takes each region set; the number of all slots for a set that was left out."""
        max_slots = self.sets.shape[1]
        slots = torch.arange(max_slots, device=self.sets.device).expand_as(self.sets)
        taken = slots.masked_fill(slots >= self.num_slots[:, None], max_slots)
        return torch.empty_like(taken).scatter_(1, self.sets, taken)


def num_draws(max_slots: int) -> int:
    """Size of the noise of ``draw_orders`` per example."""
    return max_slots + _KEYS


def draw_orders(
    num_slots: Int[Tensor, " examples"], noise: Float[Tensor, "examples draws"], permuted_share: float
) -> ControlOrder:
    """Permute a share of the controls by uniform noise in [0, 1).

    Half of these keep all region sets, the others a random number of them, from one on. Orders that turn out to be that
    of mention are not permuted.
    """
    of_mention = ControlOrder.of_mention(num_slots, noise.shape[1] - _KEYS)
    is_permuted = noise[:, _IS_PERMUTED] < permuted_share
    is_set = of_mention.sets < num_slots[:, None]
    shuffled = noise[:, _KEYS:].masked_fill(~is_set, 1.0).argsort(dim=1, stable=True)
    kept = torch.minimum((2 * noise[:, _NUM_KEPT] * num_slots).long() + 1, num_slots)
    is_permuted &= (kept < num_slots) | (shuffled != of_mention.sets).any(1)
    return ControlOrder(
        torch.where(is_permuted[:, None], shuffled, of_mention.sets),
        torch.where(is_permuted, kept, num_slots),
        is_permuted,
    )
