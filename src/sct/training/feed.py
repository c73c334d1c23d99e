"""Examples and region features as tables on a device, and batches gathered from them without work on the host."""

from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from sct.data.examples import Examples
from sct.model.inputs import ControlInputs


@dataclass(frozen=True, slots=True, eq=False)
class RegionTable:
    """Features of all regions and the descriptors of all images of a dataset."""

    regions: Float[Tensor, "regions features"]
    images: Float[Tensor, "images features"]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Captions to learn from."""

    inputs: ControlInputs
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


class Feed:
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

    def inputs(self, chosen: Int[Tensor, " batch"]) -> ControlInputs:
        """Their controls alone."""
        return self._inputs(chosen.to(self.home)).to(self._device)

    def _inputs(self, chosen: Int[Tensor, " batch"]) -> ControlInputs:
        """Each region set has rows of its own, so that the shape is always the same."""
        image = self._columns["image"][chosen].long()
        starts = self._columns["set_starts"][chosen, : self._num_slots].long()
        sizes = self._columns["set_sizes"][chosen, : self._num_slots].long()
        mask = self._places < sizes[..., None]
        places = torch.where(mask, starts[..., None] + self._places, 0)
        rows = self._columns["members"][places.flatten()].long()
        return ControlInputs(
            self._table.regions.index_select(0, rows),
            self._table.images[image],
            torch.arange(mask.numel(), device=self.home).view(mask.shape),
            mask,
            self._columns["num_slots"][chosen].long(),
        )
