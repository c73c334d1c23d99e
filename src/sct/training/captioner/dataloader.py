"""Training batches: an epoch sampler, and examples and region features as tables on a device.

Which rows a step uses depends on the seed and the step only, so a run can resume anywhere. Batches are gathered on the
device; this is the second collation of controls besides ``sct.captioner.collate``, which starts from requests.
"""

from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from sct.data.examples import Examples
from sct.models.inputs import ControlBatch
from sct.training.captioner.permuted_controls import ControlOrder

_CONTROLS, _EPOCHS, _CAPTIONS, _DROPOUT = -1, 0, 1, 2
"""Streams of random numbers; each rank has a dropout stream, from the last on."""


class EpochSampler:
    """Epoch sampler whose batches wrap across epoch boundaries, so that every batch is full."""

    def __init__(
        self,
        num_examples: int,
        batch_size: int,
        *,
        seed: int,
        shuffle: bool = True,
        repeats: Int[Tensor, " examples"] | None = None,
    ) -> None:
        """``repeats`` is how often an epoch visits each example; default: once."""
        rows = torch.arange(num_examples)
        self._rows = rows if repeats is None else rows.repeat_interleave(repeats)
        self._epoch_size, self._batch_size = len(self._rows), batch_size
        self._seed, self._shuffle = seed, shuffle
        self._cache: dict[int, Int[Tensor, " epoch"]] = {}

    def rows(self, step: int) -> Int[Tensor, " batch"]:
        """Rows of the examples of a step, counted from 0.

        >>> sampler = EpochSampler(3, 2, seed=1)
        >>> torch.cat([sampler.rows(step) for step in range(3)]).view(2, 3).sort().values.tolist()
        [[0, 1, 2], [0, 1, 2]]
        """
        position, parts = step * self._batch_size, []
        missing = self._batch_size
        while missing:
            epoch, offset = divmod(position, self._epoch_size)
            parts.append(self._epoch_rows(epoch)[offset : offset + missing])
            position += len(parts[-1])
            missing -= len(parts[-1])
        return torch.cat(parts)

    def epochs(self, step: int) -> float:
        """Epochs completed before a step, with the fraction of the current one."""
        return step * self._batch_size / self._epoch_size

    def steps(self, epochs: float) -> int:
        """Steps that complete this many epochs, at least one."""
        return max(1, -int(-epochs * self._epoch_size // self._batch_size))

    def _epoch_rows(self, epoch: int) -> Int[Tensor, " epoch"]:
        if epoch not in self._cache:
            rows = self._rows
            if self._shuffle:
                rows = rows[torch.randperm(self._epoch_size, generator=_generator(self._seed, _EPOCHS, epoch))]
            self._cache = {key: kept for key, kept in self._cache.items() if key == epoch - 1} | {epoch: rows}
        return self._cache[epoch]


def step_noise(step: int, shape: tuple[int, ...], seed: int) -> Float[Tensor, "..."]:
    """Uniform random numbers in [0, 1) by which a step samples captions, the same on every machine."""
    return torch.rand(shape, generator=_generator(seed, _CAPTIONS, step))


def control_noise(step: int, shape: tuple[int, ...], seed: int) -> Float[Tensor, "..."]:
    """Uniform random numbers in [0, 1) by which a step permutes controls."""
    return torch.rand(shape, generator=_generator(seed, _CONTROLS, step))


def dropout_seed(step: int, rank: int, seed: int) -> int:
    """Seed of the random numbers that a model draws itself in a step."""
    return _mix_seed(seed, _DROPOUT + rank, step)


def _generator(seed: int, stream: int, index: int) -> torch.Generator:
    return torch.Generator().manual_seed(_mix_seed(seed, stream, index))


def _mix_seed(seed: int, stream: int, index: int) -> int:
    # Large odd factors keep neighbouring seeds, streams and indices apart.
    return (seed * 0x9E3779B97F4A7C15 + stream * 0xC2B2AE3D27D4EB4F + index) % 2**63


@dataclass(frozen=True, slots=True, eq=False)
class RegionTable:
    """Region features and image descriptors of a whole dataset."""

    regions: Float[Tensor, "regions features"]
    images: Float[Tensor, "images features"]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Ground-truth captions with their controls."""

    controls: ControlBatch
    words: Int[Tensor, "examples steps_and_one"]
    """From BOS to EOS, then padding."""
    slots: Int[Tensor, "examples steps"]
    """Pointer position at each step."""
    shifts: Int[Tensor, "examples steps"]
    """Gate targets."""
    token_mask: Bool[Tensor, "examples steps"]
    """Steps that predict a word or EOS."""
    word_mask: Bool[Tensor, "examples steps"]
    """Steps that predict a word; the gate has no target at EOS."""

    def to(self, device: torch.device | str) -> "Batch":
        """Copy to a device."""
        rest = (getattr(self, field.name).to(device, non_blocking=True) for field in fields(self)[1:])
        return Batch(self.controls.to(device), *rest)


class DeviceDataLoader:
    """Gathers batches from the examples of a split and the features of their regions, stored as tables."""

    def __init__(self, examples: Examples, table: RegionTable, device: torch.device) -> None:
        """Gather where ``table`` is stored, and return batches on ``device``."""
        self.storage_device, self._device = table.regions.device, device
        self._table = table
        self._columns = {
            field.name: self._to_storage(getattr(examples, field.name))
            for field in fields(examples)
            if field.name != "caption"
        }
        self._members = torch.arange(int(examples.set_sizes.max(initial=1)), device=self.storage_device)
        self._steps = torch.arange(examples.slots.shape[1], device=self.storage_device)
        self.max_slots = int(examples.num_slots.max(initial=1))

    def _to_storage(self, column: Shaped[np.ndarray, "..."]) -> Tensor:
        # torch supports few operations on uint16.
        signed = column.astype(np.int32) if column.dtype == np.uint16 else column
        return torch.from_numpy(signed).to(self.storage_device)

    def __len__(self) -> int:
        """Number of examples."""
        return len(self._columns["words"])

    def images(self) -> list[int]:
        """Rows of the images of all examples, in the dataset."""
        return self._columns["image"].tolist()

    def batch(self, rows: Int[Tensor, " batch"]) -> Batch:
        """Captions and controls of some examples."""
        rows = rows.to(self.storage_device)
        words, slots, shifts = (self._columns[name][rows].long() for name in ("words", "slots", "shifts"))
        num_words = self._columns["num_words"][rows].long()[:, None]
        token_mask, word_mask = self._steps <= num_words, self._steps < num_words
        return Batch(self.controls(rows), words, slots, shifts, token_mask, word_mask).to(self._device)

    def num_slots(self, rows: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """Region sets of some examples, where the tables are stored."""
        return self._columns["num_slots"][rows.to(self.storage_device)].long()

    def controls(self, rows: Int[Tensor, " batch"], order: ControlOrder | None = None) -> ControlBatch:
        """Controls of some examples, without their captions; ``order`` is where the tables are, default: of mention.

        Each region set has its own rows of features, so that shapes are the same for all batches.
        """
        rows = rows.to(self.storage_device)
        image = self._columns["image"][rows].long()
        starts, sizes = (self._columns[name][rows, : self.max_slots].long() for name in ("set_starts", "set_sizes"))
        num_slots = self.num_slots(rows)
        if order is not None:
            num_slots = order.num_slots
            is_slot = torch.arange(self.max_slots, device=self.storage_device) < num_slots[:, None]
            starts, sizes = starts.gather(1, order.sets), sizes.gather(1, order.sets).masked_fill(~is_slot, 0)
        mask = self._members < sizes[..., None]
        positions = torch.where(mask, starts[..., None] + self._members, 0)
        regions = self._columns["members"][positions.flatten()].long()
        return ControlBatch(
            self._table.regions.index_select(0, regions),
            self._table.images[image],
            torch.arange(mask.numel(), device=self.storage_device).view(mask.shape),
            mask,
            num_slots,
        ).to(self._device)
