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

    @classmethod
    def of_regions(
        cls, regions: Float[Tensor, "regions features"], image_region: Int[np.ndarray, " images_and_one"]
    ) -> "RegionTable":
        """Compute the descriptors: the mean over an image's regions, zeros for an image without any."""
        lengths = torch.from_numpy(np.diff(image_region.astype(np.int64))).to(regions.device)
        image = torch.repeat_interleave(lengths)
        images = torch.zeros(len(lengths), regions.shape[1], device=regions.device)
        piece = 1 << 17  # a table in half precision is added up in float32, which must not double its memory
        for start in range(0, len(regions), piece):
            images.index_add_(0, image[start : start + piece], regions[start : start + piece].float())
        images /= lengths.clamp(min=1)[:, None]
        return cls(regions, images.to(regions.dtype))


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


class Feed:
    """All examples of a split on one device; ``home`` is where the tables are, batches are made there."""

    def __init__(self, examples: Examples, table: RegionTable) -> None:
        self._home = table.regions.device
        self._table = table
        self._columns = {
            field.name: self._placed(getattr(examples, field.name))
            for field in fields(examples)
            if field.name not in ("caption",)
        }
        self._places = torch.arange(int(examples.set_sizes.max(initial=1)), device=self._home)
        self._steps = torch.arange(examples.slots.shape[1], device=self._home)
        self._num_slots = int(examples.num_slots.max(initial=1))

    def _placed(self, column: Shaped[np.ndarray, "..."]) -> Tensor:
        # torch can index but not compare unsigned numbers of 16 bits on every device.
        signed = column.astype(np.int32) if column.dtype == np.uint16 else column
        return torch.from_numpy(signed).to(self._home)

    def __len__(self) -> int:
        """Count the examples."""
        return len(self._columns["words"])

    def batch(self, chosen: Int[Tensor, " batch"]) -> Batch:
        """The chosen examples, on the device of the tables."""
        words, slots, shifts = (self._columns[name][chosen].long() for name in ("words", "slots", "shifts"))
        num_words = self._columns["num_words"][chosen].long()[:, None]
        return Batch(self.inputs(chosen), words, slots, shifts, self._steps <= num_words, self._steps < num_words)

    def inputs(self, chosen: Int[Tensor, " batch"]) -> ControlInputs:
        """Their controls alone; each region set has rows of its own, so that the shape is always the same."""
        image = self._columns["image"][chosen].long()
        starts = self._columns["set_starts"][chosen, : self._num_slots].long()
        sizes = self._columns["set_sizes"][chosen, : self._num_slots].long()
        mask = self._places < sizes[..., None]
        places = torch.where(mask, starts[..., None] + self._places, 0)
        rows = self._columns["members"][places.flatten()].long()
        return ControlInputs(
            self._table.regions.index_select(0, rows),
            self._table.images[image],
            torch.arange(mask.numel(), device=self._home).view(mask.shape),
            mask,
            self._columns["num_slots"][chosen].long(),
        )
