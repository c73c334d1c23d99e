"""Losses of the captioner: pure functions of a model and a batch that return a total and its named terms."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.models.interface import CaptionModel
from sct.training.captioner.dataloader import Batch
from sct.training.loss import Loss, MaskedMean, masked_mean


@dataclass(frozen=True, slots=True, eq=False)
class SoftTargets:
    """Teachers' distributions along the captions of a batch."""

    word_probs: Float[Tensor, "examples time vocabulary"]
    shift_probs: Float[Tensor, "examples time 2"]
    weight: float
    """Weight of the distillation loss; the ground truth has ``1 - weight``."""


def cross_entropy_loss(
    model: CaptionModel,
    batch: Batch,
    *,
    soft_targets: SoftTargets | None = None,
    shift_weight: float = 4.0,
    label_smoothing: float = 0.0,
    count_padding: bool = False,
    mean: MaskedMean = masked_mean,
) -> Loss:
    """Cross-entropy of words and gate shifts (section 3.2), weighted 0.2 and 0.8 by default.

    Models without a gate have the word loss only; further costs of a model (the KL term of AG-CVAE) are added to it.
    ``count_padding`` includes the steps after EOS, as the authors' code does.
    """
    output = model.teacher_force(
        batch.controls,
        batch.words,
        batch.slots,
        label_smoothing=label_smoothing,
        is_ground_truth=True,
        soft_targets=None if soft_targets is None else soft_targets.word_probs,
    )
    token_mask = torch.ones_like(batch.token_mask) if count_padding else batch.token_mask
    words = mean(-output.word_log_probs, token_mask)
    costs = {name: mean(cost, token_mask) for name, cost in output.costs.items()}
    terms = {"words": words, **costs}
    if soft_targets is not None and output.distillation_log_probs is not None:
        terms["distilled_words"] = mean(-output.distillation_log_probs, token_mask)
        words = (1 - soft_targets.weight) * words + soft_targets.weight * terms["distilled_words"]
    total = words + sum(costs.values())
    if output.shift_log_probs is not None:
        shifts = mean(-output.shift_log_probs.gather(2, batch.shifts[..., None]).squeeze(2), batch.word_mask)
        terms["shifts"] = shifts
        if soft_targets is not None:
            soft_nll = -(soft_targets.shift_probs * output.shift_log_probs).sum(2)
            terms["distilled_shifts"] = mean(soft_nll, batch.word_mask)
            shifts = (1 - soft_targets.weight) * shifts + soft_targets.weight * terms["distilled_shifts"]
        total = (total + shift_weight * shifts) / (1 + shift_weight)
    return Loss(total, {name: term.detach() for name, term in terms.items()})


def policy_loss(
    log_probs: Float[Tensor, "samples time"],
    token_mask: Bool[Tensor, "samples time"],
    advantage: Float[Tensor, " samples"],
    mean: MaskedMean = masked_mean,
) -> Float[Tensor, ""]:
    """REINFORCE loss, averaged over unmasked tokens."""
    return -mean(log_probs * advantage.detach()[:, None], token_mask)


def pointer_positions(
    shifts: Int[Tensor, "samples time"], num_slots: Int[Tensor, " samples"]
) -> Int[Tensor, "samples time"]:
    """Pointer position at each step: it advances after a shift and stays on the last slot (Eq. 1).

    For models with an end slot, ``num_slots`` includes it.

    >>> pointer_positions(torch.tensor([[1, 0, 1, 0]]), torch.tensor([2])).tolist()
    [[0, 1, 1, 1]]
    """
    return torch.minimum(shifts.cumsum(1) - shifts, num_slots[:, None] - 1)
