"""A gate that is handed in decides the shifts in every implementation: stepping, teacher forcing and inference."""

import pytest
import torch
from torch import Tensor

from sct.models.linear import DENSE, INT8
from tests.factories import make_control_batch, make_model, random_actions
from tests.models.variants import ALL_CONFIGS


def third_gate(sentinel_score: Tensor, region_scores: Tensor, mask: Tensor) -> Tensor:
    """Neither the paper's gate nor the authors': the sentinel against the highest region score, sharpened."""
    highest = region_scores.masked_fill(~mask, -torch.inf).amax(1).masked_fill(~mask.any(1), 0.5)
    return torch.log_softmax(3 * torch.stack([highest, sentinel_score], dim=1), dim=1)


def always_shift(sentinel_score: Tensor, region_scores: Tensor, mask: Tensor) -> Tensor:
    return torch.tensor([0.01, 0.99]).log().expand(len(sentinel_score), 2)


@pytest.mark.parametrize("gate", [third_gate, always_shift])
@pytest.mark.parametrize("choices", ALL_CONFIGS)
@pytest.mark.parametrize(("backend", "tolerance"), [(DENSE, 1e-5), (INT8, 0.1)], ids=["dense", "int8"])
def test_handed_in_gate_decides_the_shifts_everywhere(gate, choices, backend, tolerance):
    model, inputs = make_model(**choices), make_control_batch(1)
    model.gate = gate
    decoder = model.for_inference(backend)
    words, shifts = random_actions(1, len(inputs.image), num_steps=5)
    state, decoder_state, stepped = model.init_state(inputs), decoder.init_state(inputs), []
    slots = []
    for time in range(len(words)):
        step = model.step(words[time], shifts[time], state)
        decoder_step = decoder.step(words[time], shifts[time], decoder_state)
        state, decoder_state = step.state, decoder_step.state
        slots.append(state.pointer)
        stepped.append(step.shift_log_probs)
        torch.testing.assert_close(decoder_step.shift_log_probs, step.shift_log_probs, atol=tolerance, rtol=0)
    forced = model.teacher_force(inputs, torch.cat([words, words[:1]]).T, torch.stack(slots, dim=1))
    torch.testing.assert_close(forced.shift_log_probs, torch.stack(stepped, dim=1), atol=1e-5, rtol=0)
