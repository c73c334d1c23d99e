"""What a captioner sees: a table of region features and, for each example, small tables of indices into it."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from sct.errors import InputError
from sct.models.config import CaptionerConfig


@dataclass(frozen=True, slots=True, eq=False)
class ControlBatch:
    """A batch of controls; each region's features are there once, however many sets name it."""

    regions: Float[Tensor, "rows features"]
    """Features of all regions of the batch."""
    image: Float[Tensor, "examples features"]
    """Image descriptor: the mean over the image's detections."""
    set_rows: Int[Tensor, "examples slots members"]
    """Rows of ``regions`` that make up each region set, in the order of the control."""
    set_mask: Bool[Tensor, "examples slots members"]
    """Which members are real; what it leaves out may hold any valid row."""
    num_slots: Int[Tensor, " examples"]
    """How many region sets each control has; the pointer never goes past the last, or past an empty one after it."""

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> "ControlBatch":
        """The same on another device, features in another precision."""
        return ControlBatch(
            self.regions.to(device, dtype),
            self.image.to(device, dtype),
            self.set_rows.to(device),
            self.set_mask.to(device),
            self.num_slots.to(device),
        )

    def with_end_slot(self, config: CaptionerConfig) -> "ControlBatch":
        """The region sets that the pointer of a captioner walks along: an empty one ends them for whom it should."""
        if not config.end_slot:
            return self
        is_set = torch.arange(self.set_mask.shape[1], device=self.num_slots.device) < self.num_slots[:, None]
        return replace(
            self,
            set_rows=functional.pad(self.set_rows, (0, 0, 0, 1)),
            set_mask=functional.pad(self.set_mask & is_set[..., None], (0, 0, 0, 1)),
            num_slots=self.num_slots + 1,
        )


def collate_controls(
    features: Float[Tensor, "rows features"],
    image: Float[Tensor, "examples features"],
    controls: list[list[list[int]]],
) -> ControlBatch:
    """Make the tables from lists: per example its region sets, per set its rows of ``features``.

    >>> collate_controls(torch.zeros(3, 2), torch.zeros(1, 2), [[[0, 1], [2]]]).set_mask.tolist()
    [[[True, True], [True, False]]]
    """
    _refuse_bad_controls(controls, num_rows=len(features), num_images=len(image))
    num_slots = max(len(control) for control in controls)
    num_members = max(len(members) for control in controls for members in control)
    rows = torch.zeros(len(controls), num_slots, num_members, dtype=torch.long)
    mask = torch.zeros(len(controls), num_slots, num_members, dtype=torch.bool)
    for example, control in enumerate(controls):
        for slot, members in enumerate(control):
            rows[example, slot, : len(members)] = torch.tensor(members)
            mask[example, slot, : len(members)] = True
    options: dict[str, Any] = {"device": features.device}
    counts = torch.tensor([len(control) for control in controls])
    return ControlBatch(features, image, rows.to(**options), mask.to(**options), counts.to(**options))


def _refuse_bad_controls(controls: list[list[list[int]]], *, num_rows: int, num_images: int) -> None:
    if not controls:
        raise InputError("there are no controls: expected at least one; do not ask for captions of an empty batch")
    if len(controls) != num_images:
        raise InputError(
            f"{len(controls)} controls came with {num_images} image descriptors: expected one for each; repeat the "
            "descriptor of an image that has several controls"
        )
    for example, control in enumerate(controls):
        if not control:
            raise InputError(
                f"control {example} is empty: expected at least one region set; give it one or leave it out"
            )
        for slot, members in enumerate(control):
            place = f"region set {slot} of control {example}"
            if not members:
                raise InputError(f"{place} is empty: expected at least one region; leave the set out of the control")
            bad = [row for row in members if not 0 <= row < num_rows]
            if bad:
                raise InputError(
                    f"{place} names row {bad[0]}: expected one of the features, 0 to {num_rows - 1}; count rows from 0"
                )
