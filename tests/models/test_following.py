import pytest
import torch

from sct.models.fast_cell import teacher_forced_log_probs
from sct.models.inputs import ControlBatch
from sct.models.interface import TeacherForcedOutput
from sct.models.linear import DeferredGradLinear
from sct.models.show_control_tell import ShowControlTell
from tests.models.random_captioners import EVERY_ASSEMBLY, random_captioner, random_inputs, random_walk


def random_captions(seed: int, num_slots: torch.Tensor, num_steps: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """Words, one more than steps, and where the pointer is at each step."""
    words, _ = random_walk(seed, len(num_slots), num_steps + 1)
    _, shifts = random_walk(seed, len(num_slots), num_steps)
    return words.T, torch.minimum(shifts.cumsum(0).T, num_slots[:, None] - 1)


def step_by_step(network: ShowControlTell, inputs, words, slots) -> TeacherForcedOutput:
    forced = network.teacher_forced(inputs, words[:, :-1], slots)
    return TeacherForcedOutput(forced.word_log_probs.gather(2, words[:, 1:, None]).squeeze(2), forced.shift_log_probs)


def repeated(inputs: ControlBatch, times: int) -> ControlBatch:
    """Each control several times in a row; their regions are shared."""
    tables = (inputs.image, inputs.set_rows, inputs.set_mask, inputs.num_slots)
    return ControlBatch(inputs.regions, *(table.repeat_interleave(times, dim=0) for table in tables))


@pytest.mark.parametrize("choices", EVERY_ASSEMBLY)
@pytest.mark.parametrize("with_empty_set", [False, True], ids=["", "an empty set"])
@pytest.mark.parametrize("times", [1, 3], ids=["", "three captions each"])
def test_follows_as_the_captioner_steps_and_learns_the_same(choices, with_empty_set, times):
    network = random_captioner(**choices).double().requires_grad_(True)
    inputs = random_inputs(1).to("cpu", torch.float64)
    if with_empty_set:
        inputs.set_mask[1] = False
    each = repeated(inputs, times)
    words, slots = random_captions(1, each.num_slots + int(network.config.end_slot))
    expected, found = step_by_step(network, each, words, slots), network.teacher_force(inputs, words, slots)
    torch.testing.assert_close(found.word_log_probs, expected.word_log_probs)
    torch.testing.assert_close(found.shift_log_probs, expected.shift_log_probs)
    names, weights = zip(*network.named_parameters(), strict=True)
    direction = torch.randn(words.shape[0], words.shape[1] - 1, dtype=torch.float64)

    def gradients(followed: TeacherForcedOutput) -> tuple[torch.Tensor | None, ...]:
        total = (direction * (followed.word_log_probs + 2 * followed.shift_log_probs[..., 1])).sum()
        return torch.autograd.grad(total, weights, allow_unused=True)

    for name, right, late in zip(names, gradients(expected), gradients(found), strict=True):
        torch.testing.assert_close(late, right, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("choices", EVERY_ASSEMBLY)
def test_every_word_is_followed_as_the_captioner_steps(choices):
    network, inputs = random_captioner(**choices).double(), random_inputs(1).to("cpu", torch.float64)
    words, slots = random_captions(1, inputs.num_slots + int(network.config.end_slot))
    right = network.teacher_forced(inputs, words[:, :-1], slots)
    found = teacher_forced_log_probs(network, inputs, words, slots)
    torch.testing.assert_close(found.word_log_probs, right.word_log_probs)
    torch.testing.assert_close(found.shift_log_probs, right.shift_log_probs)


def test_what_others_want_is_followed_too():
    network, inputs = random_captioner().double().requires_grad_(True), random_inputs(1).to("cpu", torch.float64)
    words, slots = random_captions(1, inputs.num_slots)
    expected = torch.rand(*slots.shape, network.config.vocabulary_size, dtype=torch.float64).softmax(2)
    found = network.teacher_force(inputs, words, slots, soft_targets=expected)
    right = (expected * network.teacher_forced(inputs, words[:, :-1], slots).word_log_probs).sum(2)
    torch.testing.assert_close(found.distillation_log_probs, right)
    weights = [network.words.weight, network.top.weight_hh, network.output.weight]
    for late, early in zip(*(torch.autograd.grad(way.sum(), weights) for way in (found[-1], right)), strict=True):
        torch.testing.assert_close(late, early)
    assert torch.equal(found.word_log_probs, network.teacher_force(inputs, words, slots).word_log_probs)
    assert network.teacher_force(inputs, words, slots).distillation_log_probs is None


def test_features_can_learn_too():
    network, inputs = random_captioner().double(), random_inputs(2).to("cpu", torch.float64)
    inputs.regions.requires_grad_()
    words, slots = random_captions(2, inputs.num_slots)
    right, found = (
        torch.autograd.grad(way(network, inputs, words, slots).word_log_probs.sum(), inputs.regions)[0]
        for way in (step_by_step, type(network).teacher_force)
    )
    torch.testing.assert_close(found, right)


def test_half_precision_comes_near():
    network, inputs = random_captioner(), random_inputs(3)
    words, slots = random_captions(3, inputs.num_slots)
    exact = network.teacher_force(inputs, words, slots)
    with torch.autocast("cpu", torch.float16):
        half = network.teacher_force(inputs, words, slots)
    assert half.word_log_probs.dtype == torch.float32
    assert not torch.equal(half.word_log_probs, exact.word_log_probs)
    torch.testing.assert_close(half.word_log_probs, exact.word_log_probs, atol=0.1, rtol=0.1)


@pytest.mark.parametrize("num_uses", [0, 1, 3])
def test_a_late_product_learns_what_an_early_one_would(num_uses):
    weight, bias = torch.randn(4, 3, requires_grad=True), torch.randn(4, requires_grad=True)
    rows = torch.randn(num_uses, 5, 3, requires_grad=True)
    late = DeferredGradLinear(weight, bias)
    outputs = torch.stack([torch.zeros(5, 4), *(late(rows[use]) for use in range(num_uses))])
    plain = torch.stack([torch.zeros(5, 4), *(rows[use] @ weight.T + bias for use in range(num_uses))])
    torch.testing.assert_close(outputs, plain)
    if num_uses:
        found = torch.autograd.grad((outputs**2).sum(), (weight, bias, rows))
        for gradient, right in zip(found, torch.autograd.grad((plain**2).sum(), (weight, bias, rows)), strict=True):
            torch.testing.assert_close(gradient, right)
