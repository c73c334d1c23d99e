import pytest
import torch

from sct.decoding import SearchConfig, StepModel, beam_search
from sct.models.fast_cell import FastDecoder
from sct.models.inputs import ControlBatch
from sct.models.linear import INT8
from sct.models.show_control_tell import ShowControlTell
from tests.models.random_captioners import EVERY_ASSEMBLY, MODES, VARIANTS, random_captioner, random_inputs, random_walk


def largest_error(
    captioner: ShowControlTell, fused: FastDecoder, inputs: ControlBatch, seed: int = 0, num_steps: int = 8
) -> float:
    """Between log-probabilities along the same words and shifts, with rows reordered now and then."""
    generator, device = torch.Generator().manual_seed(seed), inputs.regions.device
    state, fused_state = captioner.init_state(inputs), fused.init_state(inputs)
    error = 0.0
    for time in range(num_steps):
        if time % 3 == 2:
            rows = torch.randint(len(state.example), (time + 2,), generator=generator).to(device)
            state, fused_state = state.select(rows), fused_state.select(rows)
        walk = random_walk(seed + time, len(state.example), num_steps=1)
        tokens, shifts = (values[0].to(device) for values in walk)
        step = captioner.step(tokens, shifts, state)
        fused_step = fused.step(tokens, shifts, fused_state)
        state, fused_state = step.state, fused_step.state
        assert torch.equal(state.example, fused_state.example)
        assert torch.equal(state.pointer, fused_state.pointer)
        for values, fused_values in (
            (step.word_log_probs, fused_step.word_log_probs),
            (step.shift_log_probs, fused_step.shift_log_probs),
        ):
            assert fused_values.dtype == torch.float32
            error = max(error, (values - fused_values).abs().max().item())
    return error


@pytest.mark.parametrize("choices", EVERY_ASSEMBLY)
def test_says_what_the_captioner_says(choices):
    for seed in range(4):
        captioner = random_captioner(seed, **choices)
        assert largest_error(captioner, FastDecoder(captioner), random_inputs(seed), seed) < 1e-5


@pytest.mark.parametrize("choices", EVERY_ASSEMBLY)
def test_an_empty_set_is_the_same_too(choices):
    captioner, inputs = random_captioner(**choices), random_inputs(1)
    inputs.set_mask[1] = False
    assert largest_error(captioner, FastDecoder(captioner), inputs) < 1e-5


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_close(variant, mode, dtype):
    captioner = random_captioner(variant=variant, mode=mode)
    # Numbers of 8 or 11 bits, through a few steps of weights made large on purpose.
    allowed = {torch.float16: 0.05, torch.bfloat16: 0.4}[dtype]
    fused = FastDecoder(captioner, dtype=dtype)
    assert 0 < largest_error(captioner, fused, random_inputs(), num_steps=5) < allowed


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a GPU has a cell of its own, and there is no GPU")
@pytest.mark.parametrize("choices", EVERY_ASSEMBLY)
@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float32, 1e-5), (torch.float16, 0.05)], ids=str)
def test_says_the_same_on_a_gpu(choices, dtype, allowed):
    captioner = random_captioner(**choices).cuda()
    fused = FastDecoder(captioner, dtype=dtype)
    assert largest_error(captioner, fused, random_inputs().to("cuda"), num_steps=5) < allowed


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_weights_of_8_bits_are_close(variant, mode):
    captioner = random_captioner(variant=variant, mode=mode)
    assert 0 < largest_error(captioner, FastDecoder(captioner, INT8), random_inputs()) < 0.1


@pytest.mark.parametrize("choices", EVERY_ASSEMBLY)
def test_changes_of_the_original_do_not_reach_it(choices):
    captioner, inputs = random_captioner(**choices), random_inputs()
    fused = FastDecoder(captioner)
    tokens, shifts = random_walk(0, 3)

    def said() -> torch.Tensor:
        state, steps = fused.init_state(inputs), []
        for time in range(len(tokens)):
            step = fused.step(tokens[time], shifts[time], state)
            state = step.state
            steps.append(torch.cat([step.word_log_probs, step.shift_log_probs], dim=1))
        return torch.stack(steps)

    before = said()
    with torch.no_grad():
        for parameter in captioner.parameters():
            parameter.mul_(-3).add_(1)
    assert torch.equal(said(), before)


@pytest.mark.parametrize("choices", EVERY_ASSEMBLY)
def test_a_search_finds_the_same_words(choices):
    captioner, inputs = random_captioner(5, **choices), random_inputs(5, num_examples=6)
    fused = FastDecoder(captioner)
    settings = SearchConfig(max_length=7, n_best=3)
    expected = beam_search(captioner, captioner.init_state(inputs), settings)
    found = beam_search(fused, fused.init_state(inputs), settings)
    assert torch.equal(found.words, expected.words)
    assert torch.equal(found.shifts, expected.shifts)
    assert torch.allclose(found.scores, expected.scores, atol=1e-4)


def test_needs_no_gradients():
    captioner = random_captioner().requires_grad_(True)
    fused = FastDecoder(captioner)
    step = fused.step(torch.tensor([2, 2, 2]), torch.tensor([0, 0, 0]), fused.init_state(random_inputs()))
    assert not step.word_log_probs.requires_grad
    assert isinstance(fused, StepModel)
