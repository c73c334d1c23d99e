"""Input batch of a captioner: a table of region features, and per example indices into it."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from sct.errors import InputError
from sct.models.config import CaptionerConfig


@dataclass(frozen=True, slots=True, eq=False)
class ControlBatch:
    """Controls of a batch; the features of a region are stored once, however many sets contain it."""

    regions: Float[Tensor, "rows features"]
    """Features of all regions of the batch."""
    image: Float[Tensor, "examples features"]
    """Image descriptor: mean over the image's detections."""
    set_rows: Int[Tensor, "examples slots members"]
    """Rows of ``regions`` in each region set, in the order of the control."""
    set_mask: Bool[Tensor, "examples slots members"]
    """Real members; padding may hold any valid row."""
    num_slots: Int[Tensor, " examples"]
    """Region sets of each control, at which the pointer stops."""

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> "ControlBatch":
        """Batch on a device, with features in a precision."""
        return ControlBatch(
            self.regions.to(device, dtype),
            self.image.to(device, dtype),
            self.set_rows.to(device),
            self.set_mask.to(device),
            self.num_slots.to(device),
        )

    def with_end_slot(self, config: CaptionerConfig) -> "ControlBatch":
        """Append the empty region set of ``config.end_slot`` to each control, if set."""
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
    """Pad controls to a batch: per example its region sets, per set its rows of ``features``.

    >>> collate_controls(torch.zeros(3, 2), torch.zeros(1, 2), [[[0, 1], [2]]]).set_mask.tolist()
    [[[True, True], [True, False]]]
    """
    _check_controls(controls, num_rows=len(features), num_images=len(image))
    num_slots = max(len(control) for control in controls)
    num_members = max(len(members) for control in controls for members in control)
    rows = torch.zeros(len(controls), num_slots, num_members, dtype=torch.long)
    mask = torch.zeros(len(controls), num_slots, num_members, dtype=torch.bool)
    for example, control in enumerate(controls):
        for slot, members in enumerate(control):
            rows[example, slot, : len(members)] = torch.tensor(members)
            mask[example, slot, : len(members)] = True
    counts = torch.tensor([len(control) for control in controls])
    return ControlBatch(features, image, *(table.to(features.device) for table in (rows, mask, counts)))


def _check_controls(controls: list[list[list[int]]], *, num_rows: int, num_images: int) -> None:
    if not controls:
        raise InputError("got no controls, expected at least one: skip empty batches")
    if len(controls) != num_images:
        raise InputError(
            f"got {len(controls)} controls and {num_images} image descriptors, expected equally many: repeat the "
            "descriptor of an image with several controls"
        )
    for example, control in enumerate(controls):
        if not control:
            raise InputError(f"control {example} is empty, expected at least one region set: leave it out")
        for slot, members in enumerate(control):
            where = f"region set {slot} of control {example}"
            if not members:
                raise InputError(f"{where} is empty, expected at least one region: leave the set out")
            bad = [row for row in members if not 0 <= row < num_rows]
            if bad:
                raise InputError(f"{where}: got row {bad[0]}, expected a row of the features, 0 to {num_rows - 1}")
