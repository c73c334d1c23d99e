import math
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sct.decoding import StepModel
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch, collate_controls
from sct.models.show_control_tell import ShowControlTell, build_show_control_tell
from tests.factories import SIZES, make_control_batch, make_model, random_actions, random_controls
from tests.models.variants import ALL_CONFIGS, MODES, VARIANTS

every_variant = pytest.mark.parametrize("variant", VARIANTS)
every_mode = pytest.mark.parametrize("mode", MODES)
image_or_not = pytest.mark.parametrize("image_in_language_lstm", [False, True], ids=["", "image in top layer"])

# The equations as printed, one row at a time and without a mask ------------------------------------------------------


@dataclass(frozen=True)
class RowState:
    """Recurrent state of one row."""

    hidden_1: Tensor
    memory_1: Tensor
    hidden_2: Tensor
    memory_2: Tensor


@dataclass(frozen=True)
class PrintedStep:
    words: Tensor
    shift: float
    attention: list[float]
    sentinel_weight: float
    states: RowState


def lstm(weights: dict[str, Tensor], layer: str, inputs: Tensor, hidden: Tensor, memory: Tensor):
    gates = weights[f"{layer}.weight_ih"] @ inputs + weights[f"{layer}.weight_hh"] @ hidden
    gates = gates + weights[f"{layer}.bias_ih"] + weights[f"{layer}.bias_hh"]
    take, forget, new, give = gates.reshape(4, -1)
    memory = forget.sigmoid() * memory + take.sigmoid() * new.tanh()
    return give.sigmoid() * memory.tanh(), memory


def step_as_printed(
    captioner: ShowControlTell, word: int, image: Tensor, region_set: list[Tensor], before: RowState
) -> PrintedStep:
    """Eq. 2-10 in the paper's symbols."""
    weights, variant = captioner.state_dict(), captioner.config.variant
    x = torch.cat([before.hidden_2, image, weights["word_embedding.weight"][word]])
    h, m = lstm(weights, "attention_lstm", x, before.hidden_1, before.memory_1)
    w_h, W_g, W_sr = (weights[f"attention.{name}.weight"] for name in ("score", "query", "region_key"))  # noqa: N806

    def sentinel(name: str) -> Tensor:  # Eq. 2-3 and 7-8: W_i x_t + W_h h_{t-1}
        gate = weights[f"{name}.from_input.weight"] @ x + weights[f"{name}.from_hidden.weight"] @ before.hidden_1
        return gate.sigmoid() * m.tanh()

    def z_of(key: Tensor, vector: Tensor) -> float:  # Eq. 4-5
        return float(w_h[0] @ torch.tanh(key @ vector + W_g @ h))

    z_r = [z_of(W_sr, region) for region in region_set]
    weighed = [(math.exp(z), region) for z, region in zip(z_r, region_set, strict=True)]
    if variant != "no_visual_sentinel":
        s_v = sentinel("visual_sentinel")
        z_v = z_of(weights["visual_score.key.weight"], s_v)
        # The sentinel is projected to the size of the regions.
        value = weights["sentinel_projection.weight"] @ s_v + weights["sentinel_projection.bias"]
        weighed.append((math.exp(z_v), value))
    z_c = z_v if variant == "single_sentinel" else z_of(weights["chunk_score.key.weight"], sentinel("chunk_sentinel"))
    shift = math.exp(z_c) / (math.exp(z_c) + sum(math.exp(z) for z in z_r))  # Eq. 6

    total = sum(weight for weight, _ in weighed)
    alpha = [weight / total for weight, _ in weighed]  # Eq. 9
    context = sum(weight * vector for weight, (_, vector) in zip(alpha, weighed, strict=True))  # Eq. 10
    into_top = [h, context] + ([image] if captioner.config.image_in_language_lstm else [])
    hidden_2, memory_2 = lstm(weights, "language_lstm", torch.cat(into_top), before.hidden_2, before.memory_2)
    logits = weights["vocab_projection.weight"] @ hidden_2 + weights["vocab_projection.bias"]
    return PrintedStep(
        words=logits - logits.exp().sum().log(),
        shift=shift,
        attention=alpha[: len(z_r)],
        sentinel_weight=sum(alpha[len(z_r) :]),
        states=RowState(h, m, hidden_2, memory_2),
    )


@every_variant
@image_or_not
def test_paper_mode_is_the_equations_as_printed(variant, image_in_language_lstm):
    captioner = make_model(1, variant=variant, image_in_language_lstm=image_in_language_lstm).double()
    controls = random_controls(torch.Generator().manual_seed(3), 6, 7)
    inputs = collate_controls(torch.randn(7, 6).double(), torch.randn(6, 6).double(), controls)
    tokens, shifts = random_actions(2, 6)
    shifts[0] = 0
    state = captioner.init_state(inputs)
    states = [RowState(*torch.zeros(4, 8).double()) for _ in controls]
    for time in range(len(tokens)):
        step = captioner.step(tokens[time], shifts[time], state)
        output = captioner.forward_step(tokens[time], replace(state, pointer=step.state.pointer))
        state = step.state
        for row, control in enumerate(controls):
            # Eq. 1, where the last set is N: it has one fewer than there are sets.
            slot = min(int(shifts[: time + 1, row].sum()), len(control) - 1)
            region_set = [inputs.regions[index] for index in control[slot]]
            printed = step_as_printed(captioner, int(tokens[time, row]), inputs.image[row], region_set, states[row])
            states[row] = printed.states
            assert torch.allclose(step.word_log_probs[row], printed.words, atol=1e-9)
            assert step.shift_log_probs[row].exp().tolist() == pytest.approx(
                [1 - printed.shift, printed.shift], abs=1e-9
            )
            weights = output.attention.region_weights[row]
            assert weights[: len(region_set)].tolist() == pytest.approx(printed.attention, abs=1e-9)
            assert not weights[len(region_set) :].any()
            assert output.attention.sentinel_weight[row].item() == pytest.approx(printed.sentinel_weight, abs=1e-9)


# Padding ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Padding:
    members: int
    slots: int
    rows_before: int
    rows_after: int
    examples_before: int
    examples_after: int
    garbage: float
    """Magnitude of unused region features."""
    seed: int


def paddings() -> st.SearchStrategy[Padding]:
    few = st.integers(0, 3)
    garbage = st.sampled_from([0.0, 1.0, 1e4, 1e30])
    return st.builds(Padding, few, few, few, few, few, few, garbage, st.integers(0, 2**31))


def padded(inputs: ControlBatch, padding: Padding) -> ControlBatch:
    """The same examples between others, with padded slots, members and regions; padding refers to arbitrary rows."""
    generator = torch.Generator().manual_seed(padding.seed)
    num_rows, features = inputs.regions.shape
    num_examples, num_slots, num_members = inputs.set_rows.shape
    before, after = padding.examples_before, padding.examples_after
    own = slice(before, before + num_examples)
    rows = padding.rows_before + num_rows + padding.rows_after
    shape = (before + num_examples + after, num_slots + padding.slots, num_members + padding.members)

    regions = padding.garbage * torch.randn(rows, features, generator=generator)
    regions[padding.rows_before : padding.rows_before + num_rows] = inputs.regions
    image = torch.randn(shape[0], features, generator=generator)
    image[own] = inputs.image
    set_rows = torch.randint(rows, shape, generator=generator)
    # Other examples and sets beyond the end of a control may hold anything.
    set_mask = torch.randint(2, shape, generator=generator).bool()
    num_slots_of_all = torch.randint(1, shape[1] + 1, (shape[0],), generator=generator)
    num_slots_of_all[own] = inputs.num_slots
    for example in range(num_examples):
        for slot in range(int(inputs.num_slots[example])):
            place = torch.randperm(shape[2], generator=generator)[:num_members].sort().values
            real = inputs.set_mask[example, slot]
            set_mask[before + example, slot] = False
            set_mask[before + example, slot, place] = real
            set_rows[before + example, slot, place[real]] = inputs.set_rows[example, slot][real] + padding.rows_before
    return ControlBatch(regions, image, set_rows, set_mask, num_slots_of_all)


def pad_examples(values: Tensor, padding: Padding) -> Tensor:
    """Pad the last dimension, that of examples, with zeros for the other examples."""
    return torch.nn.functional.pad(values, (padding.examples_before, padding.examples_after))


def slots_along(captioner: ShowControlTell, inputs: ControlBatch, shifts: Tensor) -> Tensor:
    return torch.minimum(shifts.cumsum(0), inputs.with_end_slot(captioner.config).num_slots - 1)


@pytest.mark.parametrize("choices", ALL_CONFIGS)
@settings(max_examples=25, deadline=None)
@given(padding=paddings())
def test_padding_changes_nothing(choices, padding):
    captioner = make_model(padding.seed % 7, **choices)
    inputs = make_control_batch(padding.seed % 101)
    more = padded(inputs, padding)
    num_examples = len(inputs.image)
    own = slice(padding.examples_before, padding.examples_before + num_examples)

    tokens, shifts = random_actions(padding.seed, num_examples, num_steps=4)
    state, more_state = captioner.init_state(inputs), captioner.init_state(more)
    for time in range(len(tokens)):
        step = captioner.step(tokens[time], shifts[time], state)
        more_step = captioner.step(pad_examples(tokens[time], padding), pad_examples(shifts[time], padding), more_state)
        state, more_state = step.state, more_step.state
        assert torch.equal(more_state.pointer[own], state.pointer)
        assert torch.allclose(more_step.word_log_probs[own], step.word_log_probs, atol=1e-5)
        assert torch.allclose(more_step.shift_log_probs[own], step.shift_log_probs, atol=1e-5)

    slots = slots_along(captioner, inputs, shifts)
    forced = captioner.teacher_forced_log_probs(inputs, tokens.T, slots.T)
    more_forced = captioner.teacher_forced_log_probs(
        more, pad_examples(tokens, padding).T, pad_examples(slots, padding).T
    )
    assert torch.allclose(more_forced.word_log_probs[own], forced.word_log_probs, atol=1e-5)
    assert torch.allclose(more_forced.shift_log_probs[own], forced.shift_log_probs, atol=1e-5)


def gradients(captioner: ShowControlTell, inputs: ControlBatch, tokens: Tensor, slots: Tensor):
    captioner.requires_grad_(True).zero_grad()
    forced = captioner.teacher_forced_log_probs(inputs, tokens, slots)
    (forced.word_log_probs[..., 4].sum() + forced.shift_log_probs[..., 1].sum()).backward()
    return {name: parameter.grad.clone() for name, parameter in captioner.named_parameters()}


@pytest.mark.parametrize("choices", ALL_CONFIGS)
def test_padding_changes_no_gradient(choices):
    padding = Padding(2, 1, 2, 1, examples_before=0, examples_after=0, garbage=1e30, seed=5)
    captioner, inputs = make_model(2, **choices), make_control_batch(3)
    tokens, shifts = random_actions(4, 3)
    slots = slots_along(captioner, inputs, shifts)
    expected = gradients(captioner, inputs, tokens.T, slots.T)
    found = gradients(captioner, padded(inputs, padding), tokens.T, slots.T)
    for name, gradient in expected.items():
        assert torch.allclose(found[name], gradient, atol=1e-4, rtol=1e-4), name


@every_variant
@every_mode
def test_empty_set_is_finite(variant, mode):
    captioner = make_model(variant=variant, mode=mode)
    inputs = make_control_batch(1)
    inputs.set_mask[1] = False
    tokens, shifts = random_actions(0, 3)
    state = captioner.init_state(inputs)
    for time in range(len(tokens)):
        step = captioner.step(tokens[time], shifts[time], state)
        state = step.state
        for values in (step.word_log_probs, step.shift_log_probs):
            assert values.isfinite().all()
            assert torch.allclose(values.exp().sum(1), torch.ones(3))
    found = gradients(captioner, inputs, tokens.T, slots_along(captioner, inputs, shifts).T)
    assert all(gradient.isfinite().all() for gradient in found.values())


# The pointer and the state ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("num_sets", "shifts", "pointers"),
    [
        pytest.param(1, [0, 1, 1], [0, 0, 0], id="one set"),
        pytest.param(3, [0, 0, 0], [0, 0, 0], id="no shift"),
        pytest.param(3, [0, 1, 0, 1, 0], [0, 1, 1, 2, 2], id="moves by one per shift"),
        pytest.param(2, [1, 1, 1, 0, 1], [1, 1, 1, 1, 1], id="stops at the last set"),
    ],
)
def test_pointer_follows_the_shifts(num_sets, shifts, pointers):
    captioner = make_model()
    longer = [[0], [1], [2], [3]]  # a longer control: each row stops at its own last set
    inputs = collate_controls(torch.randn(4, 6), torch.randn(2, 6), [[[row] for row in range(num_sets)], longer])
    state, visited = captioner.init_state(inputs), []
    for shift in shifts:
        state = captioner.step(torch.tensor([5, 5]), torch.tensor([shift, 1]), state).state
        visited.append(int(state.pointer[0]))
    assert visited == pointers
    assert int(state.pointer[1]) == min(len(shifts), 3)


@every_mode
def test_shift_changes_the_attended_set(mode):
    captioner = make_model(mode=mode)
    inputs = collate_controls(torch.randn(2, 6), torch.randn(1, 6).expand(2, 6), [[[0], [1]], [[1], [0]]])
    state = captioner.init_state(inputs)
    stayed = captioner.step(torch.tensor([5, 5]), torch.tensor([0, 0]), state)
    moved = captioner.step(torch.tensor([5, 5]), torch.tensor([1, 1]), state)
    assert torch.allclose(stayed.word_log_probs, moved.word_log_probs.flip(0), atol=1e-6)
    assert not torch.allclose(stayed.word_log_probs, moved.word_log_probs, atol=1e-3)


@every_mode
def test_teacher_forcing_agrees_with_steps(mode):
    captioner, inputs = make_model(mode=mode), make_control_batch()
    tokens, shifts = random_actions(1, 3)
    forced = captioner.teacher_forced_log_probs(inputs, tokens.T, slots_along(captioner, inputs, shifts).T)
    state = captioner.init_state(inputs)
    for time in range(len(tokens)):
        step = captioner.step(tokens[time], shifts[time], state)
        state = step.state
        assert torch.allclose(forced.word_log_probs[:, time], step.word_log_probs, atol=1e-6)
        assert torch.allclose(forced.shift_log_probs[:, time], step.shift_log_probs, atol=1e-6)


@pytest.mark.parametrize("chosen", [[], [2], [2, 0, 1], [1, 1, 0, 2, 2]], ids=str)
def test_select_reorders_rows(chosen):
    captioner, inputs = make_model(), make_control_batch()
    tokens, shifts = random_actions(1, 3)
    state = captioner.step(tokens[0], shifts[0], captioner.init_state(inputs)).state
    rows = torch.tensor(chosen, dtype=torch.long)
    selected = state.select(rows)
    assert selected.example.tolist() == chosen
    assert torch.equal(selected.pointer, state.pointer[rows])
    assert selected.batch is inputs
    before = captioner.step(tokens[1], shifts[1], state)
    after = captioner.step(tokens[1][rows], shifts[1][rows], selected)
    assert torch.allclose(after.word_log_probs, before.word_log_probs[rows], atol=1e-6)
    assert torch.allclose(after.shift_log_probs, before.shift_log_probs[rows], atol=1e-6)


def test_is_a_step_model():
    assert isinstance(make_model(), StepModel)


# Parameters ---------------------------------------------------------------------------------------------------------


@every_variant
@every_mode
@image_or_not
def test_gradients_reach_every_parameter(variant, mode, image_in_language_lstm):
    captioner = make_model(variant=variant, mode=mode, image_in_language_lstm=image_in_language_lstm)
    inputs = make_control_batch()
    tokens, shifts = random_actions(1, 3)
    found = gradients(captioner, inputs, tokens.T, slots_along(captioner, inputs, shifts).T)
    assert set(found) == {name for name, _ in captioner.named_parameters()}
    assert [name for name, gradient in found.items() if not gradient.abs().sum() > 1e-9] == []


@every_mode
def test_initial_weights(mode):
    torch.manual_seed(0)
    captioner = build_show_control_tell(CaptionerConfig(**(SIZES | {"hidden_size": 40, "feature_size": 60}), mode=mode))
    for name, parameter in captioner.named_parameters():
        if name.endswith("weight_hh"):
            for block in parameter.split(40):
                assert torch.allclose(block @ block.T, torch.eye(40), atol=1e-5), name
        elif "bias" in name:
            assert not parameter.any(), name
        else:
            expected = math.sqrt(2 / sum(parameter.shape))
            # The standard error of a standard deviation of n values is about 1 / sqrt(2 n).
            assert parameter.std().item() == pytest.approx(expected, rel=5 / math.sqrt(2 * parameter.numel())), name
    assert {name.split(".")[0] for name, _ in captioner.named_parameters() if "bias" in name} == (
        {"attention_lstm", "language_lstm", "vocab_projection", "sentinel_projection"}
        | ({"visual_sentinel", "chunk_sentinel"} if mode == "reference" else set())
    )


def test_seed_determines_the_initial_weights():
    def weights(seed: int) -> dict[str, Tensor]:
        torch.manual_seed(seed)
        return build_show_control_tell(CaptionerConfig(**SIZES)).state_dict()

    first, again, other = weights(3), weights(3), weights(4)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["word_embedding.weight"], other["word_embedding.weight"])


@every_variant
def test_default_sizes_are_the_papers(variant):
    with torch.device("meta"):
        captioner = build_show_control_tell(CaptionerConfig(vocabulary_size=10_000, variant=variant))
    shapes = {name: tuple(parameter.shape) for name, parameter in captioner.named_parameters()}
    expected = {
        "word_embedding.weight": (10_000, 1000),
        "attention_lstm.weight_ih": (4000, 1000 + 2048 + 1000),
        "language_lstm.weight_ih": (4000, 1000 + 2048),
        "attention.query.weight": (512, 1000),
        "attention.region_key.weight": (512, 2048),
        "attention.score.weight": (1, 512),
        "vocab_projection.weight": (10_000, 1000),
    }
    assert {name: shapes[name] for name in expected} == expected
    parts = {name.split(".")[0] for name in shapes}
    assert ("visual_sentinel" in parts, "chunk_sentinel" in parts) == {
        "show_control_tell": (True, True),
        "single_sentinel": (True, False),
        "no_visual_sentinel": (False, True),
    }[variant]
