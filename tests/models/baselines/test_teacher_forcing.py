"""Captions are followed as they are stepped through, and the same is learned from them."""

import pytest
import torch

from sct.models.baselines.base import LateLayer, Layer, Memory, no_memory
from tests.models.baselines.tiny_systems import CONTROLS, SYSTEMS, random_inputs, random_system

WORDS = torch.tensor([[2, 4, 5, 6, 3, 1, 1, 1], [2, 7, 8, 3, 1, 1, 1, 1], [2, 6, 6, 4, 5, 7, 8, 3]])
"""Longer than the longest template of parts of speech."""
SEVERAL = torch.cat([WORDS, WORDS.flip(0), WORDS.roll(1, 0)]).view(3, 3, -1).transpose(0, 1).flatten(0, 1)
"""Three captions of each example, one after the other."""


def stepped(system, inputs, words):
    """Log-probabilities of given words, with rows chosen as sampling does."""
    first = system.init_state(inputs)
    state = first.select(torch.arange(len(inputs.image)).repeat_interleave(len(words) // len(inputs.image)))
    found = []
    for tokens, targets in zip(words[:, :-1].unbind(1), words[:, 1:].unbind(1), strict=True):
        step = system.step(tokens, torch.zeros_like(tokens), state)
        found.append(step.word_log_probs.gather(1, targets[:, None])[:, 0])
        state = step.state
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("with_empty_control", [False, True], ids=["", "an empty control"])
@pytest.mark.parametrize("words", [WORDS, SEVERAL], ids=["one caption", "several captions"])
@pytest.mark.parametrize("image_in_top_layer", [False, True], ids=["", "image in top layer"])
@pytest.mark.parametrize("variant", SYSTEMS)
def test_follows_as_it_steps_and_learns_the_same(variant, image_in_top_layer, words, with_empty_control):
    system = random_system(variant, image_in_top_layer=image_in_top_layer).double()
    inputs = random_inputs(CONTROLS).to("cpu", torch.float64)
    if with_empty_control:
        inputs.set_mask[1] = False
    followed = system.teacher_force(inputs, words, torch.zeros_like(words[:, 1:])).word_log_probs
    wished = stepped(system, inputs, words)
    torch.testing.assert_close(followed, wished, rtol=1e-9, atol=1e-9)
    names, weights = zip(*system.named_parameters(), strict=True)
    direction = torch.randn(wished.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    late, right = (
        torch.autograd.grad((direction * log_probs).sum(), weights, allow_unused=True)
        for log_probs in (followed, wished)
    )
    for name, found, expected in zip(names, late, right, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("variant", SYSTEMS)
def test_every_weight_learns_in_half_precision_nearly_what_it_should(variant):
    system, inputs, slots = random_system(variant), random_inputs(CONTROLS), torch.zeros_like(WORDS[:, 1:])
    exact = torch.autograd.grad(system.teacher_force(inputs, WORDS, slots).word_log_probs.sum(), system.output.weight)[
        0
    ]
    with torch.autocast("cpu", dtype=torch.float16):
        torch.manual_seed(0)
        taught = system.teacher_force(inputs, WORDS, slots, is_ground_truth=True)
        found = system.teacher_force(inputs, WORDS, slots).word_log_probs
    coarse = torch.autograd.grad(found.sum(), system.output.weight)[0]
    assert (coarse - exact).norm() < 0.1 * exact.norm()
    (taught.word_log_probs.sum() - sum(cost.sum() for cost in taught.costs.values())).backward()
    assert [name for name, weight in system.named_parameters() if weight.grad is None] == []


@pytest.mark.parametrize("variant", ["up_down", "neural_baby_talk", "pos"])
def test_what_rows_see_is_gathered_once_as_long_as_they_stay_as_they_are(variant):
    system = random_system(variant)
    tokens = torch.tensor([2, 2, 2])
    first = system.step(tokens, torch.zeros_like(tokens), system.init_state(random_inputs(CONTROLS))).state
    assert first.of_rows is first.of_examples
    chosen = first.select(torch.tensor([1, 1, 0]))
    one = system.step(tokens, torch.zeros_like(tokens), chosen).state
    two = system.step(tokens, torch.zeros_like(tokens), one).state
    assert one.of_rows is two.of_rows
    assert torch.equal(two.of_rows.regions, first.of_examples.regions[[1, 1, 0]])


def test_a_control_is_read_as_if_there_were_no_padding():
    system = random_system("controllable_lstm").double()
    inputs = random_inputs(CONTROLS).to("cpu", torch.float64)
    inputs.set_mask[1] = False
    found = system.read_control(inputs)
    assert not found[1].any()
    for row in (0, 2):
        memory = no_memory(1, 8, inputs.image)
        for region in [member for members in CONTROLS[row] for member in members]:
            memory = system.control.remember(inputs.regions[region, None], memory)
        torch.testing.assert_close(found[row, None], memory.hidden, rtol=1e-12, atol=1e-12)


def test_what_a_control_leaves_out_spoils_nothing():
    system, inputs = random_system("controllable_lstm"), random_inputs([[[0, 1], [2]], [[3]]])
    wished = system.read_control(inputs)
    inputs.regions[6] = torch.inf
    inputs.set_rows[~inputs.set_mask] = 6
    found = system.read_control(inputs)
    torch.testing.assert_close(found, wished)
    found.sum().backward()
    assert all(weight.grad.isfinite().all() for weight in (system.control.weight_hh, system.control.bias_hh))


@pytest.mark.parametrize(
    ("recurring", "known"),
    [
        pytest.param(0, [5], id="all known"),
        pytest.param(5, [], id="nothing known"),
        pytest.param(2, [1, 2], id="some known"),
    ],
)
def test_a_late_layer_remembers_what_the_layer_does(recurring, known):
    torch.manual_seed(0)
    layer = Layer(5, 3).double()
    late = LateLayer(layer, recurring=recurring, known=known, dtype=torch.float64)
    inputs = torch.randn(4, 2, 5, dtype=torch.float64)
    shares = late.of_known(*inputs[..., recurring:].split(known, dim=2)) if known else [None] * 4
    one = other = no_memory(2, 3, inputs)
    for step, share in zip(inputs, shares, strict=True):
        one = late.remember([step[:, :recurring]] if recurring else [], share, one)
        other = layer.remember(step, other)
    torch.testing.assert_close(one.hidden, other.hidden)
    torch.testing.assert_close(one.cell, other.cell)
    weights = tuple(layer.parameters())
    found, wished = (torch.autograd.grad(sum(part.sum() for part in memory), weights) for memory in (one, other))
    for gradient, right in zip(found, wished, strict=True):
        torch.testing.assert_close(gradient, right)


def test_memory_is_repeated_row_by_row():
    memory = Memory(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [4.0]]))
    assert [part.flatten().tolist() for part in memory.repeat(2)] == [[1, 1, 2, 2], [3, 3, 4, 4]]
