"""Teacher forcing of the baselines agrees with their steps, in values and gradients."""

import pytest
import torch

from sct.models.baselines.base import DeferredLSTM, LSTMLayer, LSTMState, zero_state
from tests.factories import CONTROLS, make_control_batch, make_model
from tests.models.variants import BASELINES

WORDS = torch.tensor([[2, 4, 5, 6, 3, 1, 1, 1], [2, 7, 8, 3, 1, 1, 1, 1], [2, 6, 6, 4, 5, 7, 8, 3]])
"""Longer than the longest template of parts of speech."""
SEVERAL = torch.cat([WORDS, WORDS.flip(0), WORDS.roll(1, 0)]).view(3, 3, -1).transpose(0, 1).flatten(0, 1)
"""Three captions of each example, one after the other."""


def stepped(model, inputs, words):
    """Log-probabilities of given words, with rows chosen as sampling does."""
    first = model.init_state(inputs)
    state = first.select(torch.arange(len(inputs.image)).repeat_interleave(len(words) // len(inputs.image)))
    found = []
    for tokens, targets in zip(words[:, :-1].unbind(1), words[:, 1:].unbind(1), strict=True):
        step = model.step(tokens, torch.zeros_like(tokens), state)
        found.append(step.word_log_probs.gather(1, targets[:, None])[:, 0])
        state = step.state
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("with_empty_control", [False, True], ids=["", "an empty control"])
@pytest.mark.parametrize("words", [WORDS, SEVERAL], ids=["one caption", "several captions"])
@pytest.mark.parametrize("image_in_language_lstm", [False, True], ids=["", "image in language LSTM"])
@pytest.mark.parametrize("variant", BASELINES)
def test_teacher_forcing_agrees_with_steps_in_values_and_gradients(
    variant, image_in_language_lstm, words, with_empty_control
):
    model = make_model(variant=variant, image_in_language_lstm=image_in_language_lstm).double().requires_grad_()
    inputs = make_control_batch(controls=CONTROLS).to("cpu", torch.float64)
    if with_empty_control:
        inputs.set_mask[1] = False
    forced = model.teacher_force(inputs, words, torch.zeros_like(words[:, 1:])).word_log_probs
    expected = stepped(model, inputs, words)
    torch.testing.assert_close(forced, expected, rtol=1e-9, atol=1e-9)
    names, weights = zip(*model.named_parameters(), strict=True)
    direction = torch.randn(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    forced_gradients, right = (
        torch.autograd.grad((direction * log_probs).sum(), weights, allow_unused=True)
        for log_probs in (forced, expected)
    )
    for name, found, gradient in zip(names, forced_gradients, right, strict=True):
        torch.testing.assert_close(found, gradient, rtol=1e-9, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("variant", BASELINES)
def test_gradients_in_half_precision_are_close(variant):
    model, inputs = make_model(variant=variant).requires_grad_(), make_control_batch(controls=CONTROLS)
    slots = torch.zeros_like(WORDS[:, 1:])
    exact = torch.autograd.grad(
        model.teacher_force(inputs, WORDS, slots).word_log_probs.sum(), model.vocab_projection.weight
    )[0]
    with torch.autocast("cpu", dtype=torch.float16):
        torch.manual_seed(0)
        taught = model.teacher_force(inputs, WORDS, slots, is_ground_truth=True)
        found = model.teacher_force(inputs, WORDS, slots).word_log_probs
    coarse = torch.autograd.grad(found.sum(), model.vocab_projection.weight)[0]
    assert (coarse - exact).norm() < 0.1 * exact.norm()
    (taught.word_log_probs.sum() - sum(cost.sum() for cost in taught.costs.values())).backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None] == []


@pytest.mark.parametrize("variant", ["up_down", "neural_baby_talk", "pos"])
def test_regions_are_gathered_once_while_rows_stay_the_same(variant):
    model = make_model(variant=variant)
    tokens = torch.tensor([2, 2, 2])
    first = model.step(tokens, torch.zeros_like(tokens), model.init_state(make_control_batch(controls=CONTROLS))).state
    assert first.rows is first.examples
    chosen = first.select(torch.tensor([1, 1, 0]))
    one = model.step(tokens, torch.zeros_like(tokens), chosen).state
    two = model.step(tokens, torch.zeros_like(tokens), one).state
    assert one.rows is two.rows
    assert torch.equal(two.rows.regions, first.examples.regions[[1, 1, 0]])


def test_encode_control_ignores_padding():
    model = make_model(variant="controllable_lstm").double()
    inputs = make_control_batch(controls=CONTROLS).to("cpu", torch.float64)
    inputs.set_mask[1] = False
    found = model.encode_control(inputs)
    assert not found[1].any()
    for row in (0, 2):
        state = zero_state(1, 8, inputs.image)
        for region in [member for members in CONTROLS[row] for member in members]:
            state = model.control_lstm.step(inputs.regions[region, None], state)
        torch.testing.assert_close(found[row, None], state.hidden, rtol=1e-12, atol=1e-12)


def test_padding_rows_do_not_affect_the_encoded_control():
    model, inputs = (
        make_model(variant="controllable_lstm").requires_grad_(),
        make_control_batch(controls=[[[0, 1], [2]], [[3]]]),
    )
    expected = model.encode_control(inputs)
    inputs.regions[6] = torch.inf
    inputs.set_rows[~inputs.set_mask] = 6
    found = model.encode_control(inputs)
    torch.testing.assert_close(found, expected)
    found.sum().backward()
    assert all(weight.grad.isfinite().all() for weight in (model.control_lstm.weight_hh, model.control_lstm.bias_hh))


@pytest.mark.parametrize(
    ("recurrent", "static"),
    [
        pytest.param(0, [5], id="all static"),
        pytest.param(5, [], id="nothing static"),
        pytest.param(2, [1, 2], id="some static"),
    ],
)
def test_deferred_lstm_agrees_with_the_layer(recurrent, static):
    torch.manual_seed(0)
    layer = LSTMLayer(5, 3).double()
    deferred = DeferredLSTM(layer, recurrent=recurrent, static=static, dtype=torch.float64)
    inputs = torch.randn(4, 2, 5, dtype=torch.float64)
    shares = deferred.project_static(*inputs[..., recurrent:].split(static, dim=2)) if static else [None] * 4
    one = other = zero_state(2, 3, inputs)
    for step, share in zip(inputs, shares, strict=True):
        one = deferred.step([step[:, :recurrent]] if recurrent else [], share, one)
        other = layer.step(step, other)
    torch.testing.assert_close(one.hidden, other.hidden)
    torch.testing.assert_close(one.cell, other.cell)
    weights = tuple(layer.parameters())
    found, expected = (torch.autograd.grad(sum(part.sum() for part in state), weights) for state in (one, other))
    for gradient, right in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient, right)


def test_lstm_state_repeats_each_row():
    state = LSTMState(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [4.0]]))
    assert [part.flatten().tolist() for part in state.repeat(2)] == [[1, 1, 2, 2], [3, 3, 4, 4]]
