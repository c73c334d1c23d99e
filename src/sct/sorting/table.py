"""All controls of a dataset as flat arrays, and batches of them, scrambled, to learn the order from."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Integer
from torch import Tensor

from sct.errors import InputError
from sct.sorting.inputs import SortingInputs


@dataclass(frozen=True, slots=True, eq=False)
class SortingBatch:
    """Scrambled controls and the order they had."""

    inputs: SortingInputs
    truth: Integer[Tensor, "examples slots"]
    """The slot that is spoken about first, second, ...; padding keeps its place."""

    def to(self, device: torch.device | str) -> "SortingBatch":
        """The same on another device."""
        return SortingBatch(self.inputs.to(device), self.truth.to(device))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SortingTable:
    """Controls whose region sets are in the order of mention.

    Lists of different lengths lie end to end, with offsets: the sets of control c are ``control_sets[c]`` up to
    ``control_sets[c + 1]``, the regions of set s are ``members[set_members[s] : set_members[s + 1]]``. A region set
    that a caption names twice should be there once, at its first mention: a set control cannot ask for it twice.
    """

    class_names: tuple[str | None, ...]
    class_vectors: Float[np.ndarray, "classes words"]
    region_class: Integer[np.ndarray, " regions"]
    positions: Float[np.ndarray, "regions 4"]
    features: Float[np.ndarray, "regions features"] | None = None
    """May be memory-mapped: batches copy the rows they need."""
    scores: Float[np.ndarray, " regions"] | None = None
    control_sets: Integer[np.ndarray, " control_ends"]
    set_members: Integer[np.ndarray, " set_ends"]
    members: Integer[np.ndarray, " members"]

    def __post_init__(self) -> None:
        """Check that the arrays lead into each other and that nothing is empty."""
        _check_offsets(self.control_sets, len(self.set_members) - 1, "control", "region set")
        _check_offsets(self.set_members, len(self.members), "region set", "region")
        num_regions = len(self.region_class)
        if len(self.members) and not 0 <= int(self.members.min()) <= int(self.members.max()) < num_regions:
            raise InputError(f"a region set names a region beyond the {num_regions}: wanted 0 to {num_regions - 1}")

    def __len__(self) -> int:
        """Count the controls."""
        return len(self.control_sets) - 1

    def batch(
        self, controls: Integer[np.ndarray, " examples"], scramble: np.random.Generator | None = None
    ) -> SortingBatch:
        """Lay controls out as a batch, their sets in random order, or as they are without a generator.

        Evaluation must scramble too: a sorter that cannot tell two sets apart may well keep the order they came in.
        """
        if not len(controls):
            raise InputError("there are no controls: wanted at least one; do not sort an empty batch")
        starts = self.control_sets[controls].astype(np.int64)
        counts = self.control_sets[controls + 1].astype(np.int64) - starts
        places = np.arange(counts.max())
        mask = places < counts[:, None]  # (examples, slots)
        keys = places + np.zeros(mask.shape) if scramble is None else scramble.random(mask.shape)
        mention_of_slot = np.where(mask, keys, np.inf).argsort(axis=1, kind="stable")
        sets = np.where(mask, starts[:, None] + mention_of_slot, starts[:, None])

        first_member = self.set_members[sets].astype(np.int64)
        num_members = np.where(mask, self.set_members[sets + 1].astype(np.int64) - first_member, 0)
        numbers = np.arange(num_members.max())
        set_mask = numbers < num_members[:, :, None]  # (examples, slots, members)
        rows = self.members[np.where(set_mask, first_member[:, :, None] + numbers, first_member[:, :, None])]
        used, local = np.unique(rows, return_inverse=True)
        inputs = SortingInputs(
            class_names=self.class_names,
            class_vectors=torch.tensor(self.class_vectors),
            region_class=torch.from_numpy(self.region_class[used].astype(np.int64)),
            positions=torch.from_numpy(self.positions[used]),
            features=None if self.features is None else torch.from_numpy(self.features[used].astype(np.float32)),
            scores=None if self.scores is None else torch.from_numpy(self.scores[used]),
            set_rows=torch.from_numpy(local.reshape(rows.shape)),
            set_mask=torch.from_numpy(set_mask),
            mask=torch.from_numpy(mask),
        )
        return SortingBatch(inputs, torch.from_numpy(mention_of_slot.argsort(axis=1)))


def _check_offsets(offsets: Integer[np.ndarray, " ends"], total: int, what: str, part: str) -> None:
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != total:
        raise InputError(f"the offsets of a {what} do not lead from 0 to all {total} {part}s")
    lengths = np.diff(offsets.astype(np.int64))
    if (lengths < 1).any():
        raise InputError(f"{what} {int((lengths < 1).argmax())} is empty: wanted at least one {part}; leave it out")
