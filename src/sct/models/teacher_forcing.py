"""Teacher forcing of ``ShowControlTell``: ``FastCell`` unrolled along given captions.

Contributions of words and images are computed for all steps before the recurrence, the gate and the vocabulary
projection for all steps after it; weight gradients are accumulated after the last step (``DEFERRED_GRAD``).
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from sct.models.fast_cell import CellOutput, CurrentRegionSets, FastCell, RecurrentState, input_weights
from sct.models.inputs import ControlBatch
from sct.models.interface import TeacherForcedOutput, TeacherForcingInputs
from sct.models.linear import DEFERRED_GRAD, padded_linear
from sct.models.modules import accumulate_dtype, compute_dtype
from sct.models.show_control_tell import ShowControlTell, TeacherForcedLogProbs


class _Unrolled(NamedTuple):
    """Predictions along given captions."""

    logits: Float[Tensor, "time_and_captions vocabulary"]
    """Of words: all captions at the first step, then at the second, ..."""
    shift_log_probs: Float[Tensor, "captions time 2"]


def teacher_force(model: ShowControlTell, inputs: TeacherForcingInputs) -> TeacherForcedOutput:
    """Implement ``CaptionModel.teacher_force``; all but scores and log-probabilities are in autocast's dtype."""
    dtype = compute_dtype(model.vocab_projection.weight)
    with torch.autocast(inputs.words.device.type, enabled=False):
        unrolled = _unroll(model, inputs.batch, inputs.words, inputs.slots, dtype)
        num_captions, num_steps = inputs.slots.shape

        def log_probs(targets: Tensor, label_smoothing: float = 0.0) -> Float[Tensor, "captions time"]:
            nll = functional.cross_entropy(unrolled.logits, targets, reduction="none", label_smoothing=label_smoothing)
            return -nll.view(num_steps, num_captions).T

        words, soft = inputs.words[:, 1:].T.flatten(), inputs.soft_targets
        return TeacherForcedOutput(
            log_probs(words, inputs.label_smoothing),
            unrolled.shift_log_probs,
            distillation_log_probs=None if soft is None else log_probs(soft.transpose(0, 1).flatten(0, 1)),
        )


def teacher_forced_log_probs(
    model: ShowControlTell,
    batch: ControlBatch,
    words: Int[Tensor, "captions time_and_one"],
    slots: Int[Tensor, "captions time"],
) -> TeacherForcedLogProbs:
    """Fast ``ShowControlTell.teacher_forced_log_probs``; the last of ``words`` is not read."""
    dtype = compute_dtype(model.vocab_projection.weight)
    with torch.autocast(words.device.type, enabled=False):
        unrolled = _unroll(model, batch, words, slots, dtype)
        log_probs = torch.log_softmax(unrolled.logits, dim=1).view(slots.shape[1], slots.shape[0], -1)
    return TeacherForcedLogProbs(log_probs.transpose(0, 1), unrolled.shift_log_probs)


def _unroll(model: ShowControlTell, batch: ControlBatch, words: Tensor, slots: Tensor, dtype: torch.dtype) -> _Unrolled:
    batch = batch.with_end_slot(model.config)
    num_captions, num_steps = slots.shape
    captions_per_example = num_captions // len(batch.image)
    weights, image = input_weights(model), batch.image.to(dtype)
    cell = FastCell(model, weights, DEFERRED_GRAD, dtype, gate_in_step=False)

    embedded = functional.embedding(words[:, :-1].T, model.word_embedding.weight.to(dtype))  # time first
    image_gates = functional.linear(image, weights.image.to(dtype), weights.bias.to(dtype))
    input_gates = functional.linear(embedded, weights.word.to(dtype)) + image_gates.repeat_interleave(
        captions_per_example, dim=0
    )
    in_step = (5 if cell.has_visual_sentinel else 4) * cell.hidden_size
    language_gates = None
    if cell.language_from_image is not None:
        from_image = functional.linear(image, cell.language_from_image)
        language_gates = from_image.repeat_interleave(captions_per_example, dim=0)

    zeros = image.new_zeros(num_captions, cell.hidden_size)
    state, outputs = RecurrentState(zeros, zeros, zeros, zeros), []
    region_sets = _region_sets(model, batch, slots, dtype)
    # Unbound once: the gradient of indexing one step is a tensor of zeros for all steps, each time.
    steps = zip(input_gates[..., :in_step].unbind(0), *(table.unbind(1) for table in region_sets), strict=True)
    for step_gates, *step_sets in steps:
        output = cell.step(state, step_gates, CurrentRegionSets(*step_sets), language_gates)
        state = output.state
        outputs.append(output)

    stacked = _stack(outputs)
    chunk_gates = cell.chunk_gates(stacked.state, input_gates[..., in_step:].flatten(0, 1), num_captions)
    mask = region_sets.mask.transpose(0, 1).flatten(0, 1)
    shifts = cell.shift_log_probs(stacked._replace(chunk_gates=chunk_gates), mask)
    projection = model.vocab_projection
    logits = padded_linear(stacked.state.language_hidden, projection.weight.to(dtype), projection.bias.to(dtype))
    return _Unrolled(logits.to(accumulate_dtype(logits.dtype)), shifts.view(num_steps, num_captions, 2).transpose(0, 1))


def _stack(outputs: list[CellOutput]) -> CellOutput:
    """Outputs of all steps as rows, all captions at the first step first."""
    states = [output.state for output in outputs]
    visual_scores = [output.visual_score for output in outputs if output.visual_score is not None]
    return CellOutput(
        RecurrentState(
            torch.cat([state.attention_hidden for state in states]),
            torch.cat([state.attention_cell for state in states]),
            torch.cat([state.language_hidden for state in states]),
            states[-1].language_cell,  # not needed of all
        ),
        torch.cat([output.query for output in outputs]),
        torch.cat([output.region_scores for output in outputs]),
        torch.cat(visual_scores) if visual_scores else None,
        None,
        outputs[-1].attention_weights,  # not needed of all
    )


class _SlotSets(NamedTuple):
    """Region set under the pointer at each step, in the order of ``CurrentRegionSets``."""

    regions: Float[Tensor, "captions time members features"]
    keys: Float[Tensor, "captions time members attention"]
    mask: Bool[Tensor, "captions time members"]


def _region_sets(model: ShowControlTell, batch: ControlBatch, slots: Tensor, dtype: torch.dtype) -> _SlotSets:
    (num_examples, num_slots, num_members), (num_captions, num_steps) = batch.set_rows.shape, slots.shape
    regions = batch.regions.to(dtype)
    in_sets = regions.index_select(0, batch.set_rows.flatten())
    keys = functional.linear(in_sets, model.attention.region_key.weight.to(dtype))
    # Selected by a product with one-hot slots: exact, and its gradient needs no scattered additions.
    one_hot = functional.one_hot(slots, num_slots).to(dtype).view(num_examples, -1, num_slots)
    step_keys = one_hot @ keys.view(num_examples, num_slots, -1)
    example = torch.arange(num_examples, device=slots.device).repeat_interleave(num_captions // num_examples)[:, None]
    rows = batch.set_rows[example, slots]
    return _SlotSets(
        regions.index_select(0, rows.flatten()).view(*rows.shape, -1),
        step_keys.view(num_captions, num_steps, num_members, -1),
        batch.set_mask[example, slots],
    )
