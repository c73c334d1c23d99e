"""What training makes smaller: pure functions of a network and a batch, each reporting its total and its parts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.models.interface import CaptionModel, TeacherForcedOutput
from sct.training.captioner.dataloader import Batch

MaskedMean = Callable[[Tensor, Tensor], Tensor]
"""Mean of the values that a mask marks; over several processes it is that of the whole batch."""


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """What is to become smaller, and what it is made of."""

    total: Float[Tensor, ""]
    parts: Mapping[str, Float[Tensor, ""]] = field(default_factory=dict)
    """Losses and rewards by name, for people to look at; no gradient flows into them."""


def masked_mean(values: Float[Tensor, "*shape"], mask: Bool[Tensor, "*shape"]) -> Float[Tensor, ""]:
    """Mean of the marked values, 0 where there are none; without a wait for the device."""
    return torch.where(mask, values, 0.0).sum() / mask.sum().clamp(min=1)


@dataclass(frozen=True, slots=True, eq=False)
class SoftTargets:
    """What other captioners would say and do along a batch's captions, and how much it counts."""

    word_probs: Float[Tensor, "examples time vocabulary"]
    shift_probs: Float[Tensor, "examples time 2"]
    weight: float
    """Share of the loss that comes from here; the rest comes from the captions themselves."""


def words_loss(
    network: CaptionModel,
    batch: Batch,
    *,
    taught: SoftTargets | None = None,
    shift_weight: float = 4.0,
    label_smoothing: float = 0.0,
    count_padding: bool = False,
    mean: MaskedMean = masked_mean,
) -> Loss:
    """Cross-entropy of words and shifts (section 3.2), weighed 0.2 and 0.8 by default.

    Without a gate words count alone; whatever else a captioner's captions cost is added at their weight.
    ``count_padding`` lets the words after a caption's end count as well, as the authors' code does. What is ``taught``
    takes its share of both losses; the parts tell them apart.
    """
    followed = _followed(network, batch, label_smoothing, taught)
    counted = torch.ones_like(batch.spoken) if count_padding else batch.spoken
    words = mean(-followed.word_log_probs, counted)
    costs = {name: mean(cost, counted) for name, cost in followed.costs.items()}
    parts = {"words": words, **costs}
    if taught is not None and followed.distillation_log_probs is not None:
        parts["taught_words"] = mean(-followed.distillation_log_probs, counted)
        words = (1 - taught.weight) * words + taught.weight * parts["taught_words"]
    total = words + sum(costs.values())
    if followed.shift_log_probs is not None:
        shifts = mean(-followed.shift_log_probs.gather(2, batch.shifts[..., None]).squeeze(2), batch.inside)
        parts["shifts"] = shifts
        if taught is not None:
            parts["taught_shifts"] = mean(-(taught.shift_probs * followed.shift_log_probs).sum(2), batch.inside)
            shifts = (1 - taught.weight) * shifts + taught.weight * parts["taught_shifts"]
        total = (total + shift_weight * shifts) / (1 + shift_weight)
    return Loss(total, {name: part.detach() for name, part in parts.items()})


def _followed(
    network: CaptionModel, batch: Batch, label_smoothing: float, taught: SoftTargets | None
) -> TeacherForcedOutput:
    return network.teacher_force(
        batch.inputs,
        batch.words,
        batch.slots,
        label_smoothing=label_smoothing,
        is_ground_truth=True,
        soft_targets=None if taught is None else taught.word_probs,
    )


def policy_loss(
    log_probs: Float[Tensor, "samples time"],
    spoken: Bool[Tensor, "samples time"],
    advantage: Float[Tensor, " samples"],
    mean: MaskedMean = masked_mean,
) -> Float[Tensor, ""]:
    """Make captions likelier that earned more than their baseline, counting only the steps that were spoken."""
    return -mean(log_probs * advantage.detach()[:, None], spoken)


def pointer_positions(
    shifts: Int[Tensor, "samples time"], num_slots: Int[Tensor, " samples"]
) -> Int[Tensor, "samples time"]:
    """Where the pointer is at each step: it moves after the step that shifts, and never past the last set (Eq. 1).

    For who sees where a control is over, the empty set after it counts as one of ``num_slots``.

    >>> pointer_positions(torch.tensor([[1, 0, 1, 0]]), torch.tensor([2])).tolist()
    [[0, 1, 1, 1]]
    """
    return torch.minimum(shifts.cumsum(1) - shifts, num_slots[:, None] - 1)
