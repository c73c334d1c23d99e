"""The fast implementation computes the numbers of the readable one, for inference and training."""

import pytest
import torch

from sct.decoding import SearchConfig, StepModel, beam_search
from sct.models.fast_decoder import FastDecoder
from sct.models.inputs import ControlBatch
from sct.models.interface import TeacherForcedOutput
from sct.models.linear import INT8
from sct.models.show_control_tell import ShowControlTell
from sct.models.teacher_forcing import teacher_forced_log_probs
from tests.factories import make_control_batch, make_model, random_actions
from tests.models.variants import ALL_CONFIGS, MODES, VARIANTS

# Inference ----------------------------------------------------------------------------------------------------------


def largest_error(
    model: ShowControlTell, decoder: FastDecoder, inputs: ControlBatch, seed: int = 0, num_steps: int = 8
) -> float:
    """Largest difference between log-probabilities along the same words and shifts, with rows reordered."""
    generator, device = torch.Generator().manual_seed(seed), inputs.regions.device
    state, fast_state = model.init_state(inputs), decoder.init_state(inputs)
    error = 0.0
    for time in range(num_steps):
        if time % 3 == 2:
            rows = torch.randint(len(state.example), (time + 2,), generator=generator).to(device)
            state, fast_state = state.select(rows), fast_state.select(rows)
        walk = random_actions(seed + time, len(state.example), num_steps=1)
        tokens, shifts = (values[0].to(device) for values in walk)
        step = model.step(tokens, shifts, state)
        fast_step = decoder.step(tokens, shifts, fast_state)
        state, fast_state = step.state, fast_step.state
        assert torch.equal(state.example, fast_state.example)
        assert torch.equal(state.pointer, fast_state.pointer)
        for values, fast_values in (
            (step.word_log_probs, fast_step.word_log_probs),
            (step.shift_log_probs, fast_step.shift_log_probs),
        ):
            assert fast_values.dtype == torch.float32
            error = max(error, (values - fast_values).abs().max().item())
    return error


@pytest.mark.parametrize("choices", ALL_CONFIGS)
def test_decoder_agrees_with_the_readable_model(choices):
    for seed in range(4):
        captioner = make_model(seed, **choices)
        assert largest_error(captioner, FastDecoder(captioner), make_control_batch(seed), seed) < 1e-5


@pytest.mark.parametrize("choices", ALL_CONFIGS)
def test_decoder_agrees_on_an_empty_region_set(choices):
    captioner, inputs = make_model(**choices), make_control_batch(1)
    inputs.set_mask[1] = False
    assert largest_error(captioner, FastDecoder(captioner), inputs) < 1e-5


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_decoder_in_half_precision_is_close(variant, mode, dtype):
    captioner = make_model(variant=variant, mode=mode)
    # Mantissas of 8 or 11 bits, through a few steps with large weights.
    allowed = {torch.float16: 0.05, torch.bfloat16: 0.4}[dtype]
    decoder = FastDecoder(captioner, dtype=dtype)
    assert 0 < largest_error(captioner, decoder, make_control_batch(), num_steps=5) < allowed


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU; lstm_cell has its own kernel there")
@pytest.mark.parametrize("choices", ALL_CONFIGS)
@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float32, 1e-5), (torch.float16, 0.05)], ids=str)
def test_decoder_agrees_on_a_gpu(choices, dtype, allowed):
    captioner = make_model(**choices).cuda()
    decoder = FastDecoder(captioner, dtype=dtype)
    assert largest_error(captioner, decoder, make_control_batch().to("cuda"), num_steps=5) < allowed


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_int8_decoder_is_close(variant, mode):
    captioner = make_model(variant=variant, mode=mode)
    assert 0 < largest_error(captioner, FastDecoder(captioner, INT8), make_control_batch()) < 0.1


@pytest.mark.parametrize("choices", ALL_CONFIGS)
def test_decoder_has_its_own_copy_of_the_weights(choices):
    captioner, inputs = make_model(**choices), make_control_batch()
    decoder = FastDecoder(captioner)
    tokens, shifts = random_actions(0, 3)

    def log_probs() -> torch.Tensor:
        state, steps = decoder.init_state(inputs), []
        for time in range(len(tokens)):
            step = decoder.step(tokens[time], shifts[time], state)
            state = step.state
            steps.append(torch.cat([step.word_log_probs, step.shift_log_probs], dim=1))
        return torch.stack(steps)

    before = log_probs()
    with torch.no_grad():
        for parameter in captioner.parameters():
            parameter.mul_(-3).add_(1)
    assert torch.equal(log_probs(), before)


@pytest.mark.parametrize("choices", ALL_CONFIGS)
def test_beam_search_finds_the_same_words(choices):
    captioner, inputs = make_model(5, **choices), make_control_batch(5, num_examples=6)
    decoder = FastDecoder(captioner)
    settings = SearchConfig(max_length=7, n_best=3)
    expected = beam_search(captioner, captioner.init_state(inputs), settings)
    found = beam_search(decoder, decoder.init_state(inputs), settings)
    assert torch.equal(found.words, expected.words)
    assert torch.equal(found.shifts, expected.shifts)
    assert torch.allclose(found.scores, expected.scores, atol=1e-4)


def test_decoder_needs_no_gradients():
    captioner = make_model().requires_grad_(True)
    decoder = FastDecoder(captioner)
    step = decoder.step(torch.tensor([2, 2, 2]), torch.tensor([0, 0, 0]), decoder.init_state(make_control_batch()))
    assert not step.word_log_probs.requires_grad
    assert isinstance(decoder, StepModel)


# Training -----------------------------------------------------------------------------------------------------------


def random_captions(seed: int, num_slots: torch.Tensor, num_steps: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """Words, one more than steps, and the slot of each step."""
    words, _ = random_actions(seed, len(num_slots), num_steps + 1)
    _, shifts = random_actions(seed, len(num_slots), num_steps)
    return words.T, torch.minimum(shifts.cumsum(0).T, num_slots[:, None] - 1)


def step_by_step(network: ShowControlTell, inputs, words, slots) -> TeacherForcedOutput:
    forced = network.teacher_forced_log_probs(inputs, words[:, :-1], slots)
    return TeacherForcedOutput(forced.word_log_probs.gather(2, words[:, 1:, None]).squeeze(2), forced.shift_log_probs)


def repeated(inputs: ControlBatch, times: int) -> ControlBatch:
    """Batch with each control repeated; regions are shared."""
    tables = (inputs.image, inputs.set_rows, inputs.set_mask, inputs.num_slots)
    return ControlBatch(inputs.regions, *(table.repeat_interleave(times, dim=0) for table in tables))


@pytest.mark.parametrize("choices", ALL_CONFIGS)
@pytest.mark.parametrize("with_empty_set", [False, True], ids=["", "empty set"])
@pytest.mark.parametrize("times", [1, 3], ids=["", "three captions each"])
def test_teacher_forcing_agrees_in_values_and_gradients(choices, with_empty_set, times):
    network = make_model(**choices).double().requires_grad_(True)
    inputs = make_control_batch(1).to("cpu", torch.float64)
    if with_empty_set:
        inputs.set_mask[1] = False
    each = repeated(inputs, times)
    words, slots = random_captions(1, each.num_slots + int(network.config.end_slot))
    expected, found = step_by_step(network, each, words, slots), network.teacher_force(inputs, words, slots)
    torch.testing.assert_close(found.word_log_probs, expected.word_log_probs)
    torch.testing.assert_close(found.shift_log_probs, expected.shift_log_probs)
    names, weights = zip(*network.named_parameters(), strict=True)
    direction = torch.randn(words.shape[0], words.shape[1] - 1, dtype=torch.float64)

    def gradients(output: TeacherForcedOutput) -> tuple[torch.Tensor | None, ...]:
        total = (direction * (output.word_log_probs + 2 * output.shift_log_probs[..., 1])).sum()
        return torch.autograd.grad(total, weights, allow_unused=True)

    for name, right, fast in zip(names, gradients(expected), gradients(found), strict=True):
        torch.testing.assert_close(fast, right, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("choices", ALL_CONFIGS)
def test_teacher_forced_log_probs_agree(choices):
    network, inputs = make_model(**choices).double(), make_control_batch(1).to("cpu", torch.float64)
    words, slots = random_captions(1, inputs.num_slots + int(network.config.end_slot))
    right = network.teacher_forced_log_probs(inputs, words[:, :-1], slots)
    found = teacher_forced_log_probs(network, inputs, words, slots)
    torch.testing.assert_close(found.word_log_probs, right.word_log_probs)
    torch.testing.assert_close(found.shift_log_probs, right.shift_log_probs)


def test_soft_targets():
    network, inputs = make_model().double().requires_grad_(True), make_control_batch(1).to("cpu", torch.float64)
    words, slots = random_captions(1, inputs.num_slots)
    expected = torch.rand(*slots.shape, network.config.vocabulary_size, dtype=torch.float64).softmax(2)
    found = network.teacher_force(inputs, words, slots, soft_targets=expected)
    right = (expected * network.teacher_forced_log_probs(inputs, words[:, :-1], slots).word_log_probs).sum(2)
    torch.testing.assert_close(found.distillation_log_probs, right)
    weights = [network.word_embedding.weight, network.language_lstm.weight_hh, network.vocab_projection.weight]
    for fast, right_gradient in zip(
        *(torch.autograd.grad(way.sum(), weights) for way in (found[-1], right)), strict=True
    ):
        torch.testing.assert_close(fast, right_gradient)
    assert torch.equal(found.word_log_probs, network.teacher_force(inputs, words, slots).word_log_probs)
    assert network.teacher_force(inputs, words, slots).distillation_log_probs is None


def test_gradients_reach_region_features():
    network, inputs = make_model().double(), make_control_batch(2).to("cpu", torch.float64)
    inputs.regions.requires_grad_()
    words, slots = random_captions(2, inputs.num_slots)
    right, found = (
        torch.autograd.grad(way(network, inputs, words, slots).word_log_probs.sum(), inputs.regions)[0]
        for way in (step_by_step, type(network).teacher_force)
    )
    torch.testing.assert_close(found, right)


def test_teacher_forcing_under_autocast_is_close():
    network, inputs = make_model(), make_control_batch(3)
    words, slots = random_captions(3, inputs.num_slots)
    exact = network.teacher_force(inputs, words, slots)
    with torch.autocast("cpu", torch.float16):
        half = network.teacher_force(inputs, words, slots)
    assert half.word_log_probs.dtype == torch.float32
    assert not torch.equal(half.word_log_probs, exact.word_log_probs)
    torch.testing.assert_close(half.word_log_probs, exact.word_log_probs, atol=0.1, rtol=0.1)
