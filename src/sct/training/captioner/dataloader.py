"""Which examples each step learns from, known from the seed and the step alone, so that a run can go on anywhere.

Examples and region features as tables on a device, and batches gathered from them without work on the host.
"""

from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from sct.data.examples import Examples
from sct.models.inputs import ControlBatch


class Order:
    """Epochs one after the other without a seam: a batch may end one and begin the next, so all have the same size."""

    def __init__(
        self,
        num_examples: int,
        batch_size: int,
        *,
        seed: int,
        shuffle: bool = True,
        repeats: Int[Tensor, " examples"] | None = None,
    ) -> None:
        """``repeats``: how often an epoch goes through each example; once if not given."""
        every = torch.arange(num_examples)
        self._examples = every if repeats is None else every.repeat_interleave(repeats)
        self._num_examples, self._batch_size, self._seed, self._shuffle = (
            len(self._examples), batch_size, seed, shuffle,
        )  # fmt: skip
        self._known: dict[int, Int[Tensor, " examples"]] = {}

    def rows(self, step: int) -> Int[Tensor, " batch"]:
        """Examples of a step, counted from 0.

        >>> order = Order(3, 2, seed=1)
        >>> torch.cat([order.rows(step) for step in range(3)]).view(2, 3).sort().values.tolist()
        [[0, 1, 2], [0, 1, 2]]
        """
        first, parts = step * self._batch_size, []
        missing = self._batch_size
        while missing:
            epoch, place = divmod(first, self._num_examples)
            parts.append(self._epoch(epoch)[place : place + missing])
            first += len(parts[-1])
            missing -= len(parts[-1])
        return torch.cat(parts)

    def epochs(self, step: int) -> float:
        """Epochs gone through before a step."""
        return step * self._batch_size / self._num_examples

    def steps(self, epochs: float) -> int:
        """Steps after which so many epochs are through, at least one."""
        return max(1, -int(-epochs * self._num_examples // self._batch_size))

    def _epoch(self, number: int) -> Int[Tensor, " examples"]:
        if number not in self._known:
            if not self._shuffle:
                order = self._examples
            else:
                order = self._examples[torch.randperm(self._num_examples, generator=_generator(self._seed, 0, number))]
            self._known = {key: kept for key, kept in self._known.items() if key == number - 1} | {number: order}
        return self._known[number]


def step_noise(step: int, shape: tuple[int, ...], seed: int) -> Float[Tensor, "..."]:
    """Random numbers of a step, from 0 to below 1; the same on every machine."""
    return torch.rand(shape, generator=_generator(seed, 1, step))


def _generator(seed: int, purpose: int, number: int) -> torch.Generator:
    # Far apart, so that neighbouring seeds, purposes and numbers share nothing.
    return torch.Generator().manual_seed((seed * 0x9E3779B97F4A7C15 + purpose * 0xC2B2AE3D27D4EB4F + number) % 2**63)


@dataclass(frozen=True, slots=True, eq=False)
class RegionTable:
    """Features of all regions and the descriptors of all images of a dataset."""

    regions: Float[Tensor, "regions features"]
    images: Float[Tensor, "images features"]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Captions to learn from."""

    inputs: ControlBatch
    words: Int[Tensor, "examples steps_and_one"]
    """From BEGIN to END, then padding."""
    slots: Int[Tensor, "examples steps"]
    """Where the pointer is when the next word is said."""
    shifts: Int[Tensor, "examples steps"]
    """Whether it moves on then."""
    spoken: Bool[Tensor, "examples steps"]
    """Steps that say a word or END."""
    inside: Bool[Tensor, "examples steps"]
    """Steps that say a word: nothing shifts at END."""

    def to(self, device: torch.device | str) -> "Batch":
        """The same on another device."""
        rest = (getattr(self, field.name).to(device, non_blocking=True) for field in fields(self)[1:])
        return Batch(self.inputs.to(device), *rest)


class DeviceDataLoader:
    """All examples of a split as tables beside the features of their regions."""

    def __init__(self, examples: Examples, table: RegionTable, device: torch.device) -> None:
        """Gather batches where the tables are, and hand them out on ``device``."""
        self.home, self._device = table.regions.device, device
        self._table = table
        self._columns = {
            field.name: self._placed(getattr(examples, field.name))
            for field in fields(examples)
            if field.name != "caption"
        }
        self._places = torch.arange(int(examples.set_sizes.max(initial=1)), device=self.home)
        self._steps = torch.arange(examples.slots.shape[1], device=self.home)
        self._num_slots = int(examples.num_slots.max(initial=1))

    def _placed(self, column: Shaped[np.ndarray, "..."]) -> Tensor:
        # torch can index but not compare unsigned numbers of 16 bits on every device.
        signed = column.astype(np.int32) if column.dtype == np.uint16 else column
        return torch.from_numpy(signed).to(self.home)

    def __len__(self) -> int:
        """Count the examples."""
        return len(self._columns["words"])

    def batch(self, chosen: Int[Tensor, " batch"]) -> Batch:
        """The chosen examples."""
        chosen = chosen.to(self.home)
        words, slots, shifts = (self._columns[name][chosen].long() for name in ("words", "slots", "shifts"))
        num_words = self._columns["num_words"][chosen].long()[:, None]
        spoken, inside = self._steps <= num_words, self._steps < num_words
        return Batch(self._inputs(chosen), words, slots, shifts, spoken, inside).to(self._device)

    def inputs(self, chosen: Int[Tensor, " batch"]) -> ControlBatch:
        """Their controls alone."""
        return self._inputs(chosen.to(self.home)).to(self._device)

    def _inputs(self, chosen: Int[Tensor, " batch"]) -> ControlBatch:
        """Each region set has rows of its own, so that the shape is always the same."""
        image = self._columns["image"][chosen].long()
        starts = self._columns["set_starts"][chosen, : self._num_slots].long()
        sizes = self._columns["set_sizes"][chosen, : self._num_slots].long()
        mask = self._places < sizes[..., None]
        places = torch.where(mask, starts[..., None] + self._places, 0)
        rows = self._columns["members"][places.flatten()].long()
        return ControlBatch(
            self._table.regions.index_select(0, rows),
            self._table.images[image],
            torch.arange(mask.numel(), device=self.home).view(mask.shape),
            mask,
            self._columns["num_slots"][chosen].long(),
        )
