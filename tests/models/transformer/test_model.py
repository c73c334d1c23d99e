import pytest
import torch

from sct.decoding.interface import SHIFT
from sct.models.inputs import collate_controls
from sct.models.interface import CaptionModel
from sct.training.captioner.losses import pointer_positions
from tests.factories import FEATURE_SIZE, VOCABULARY_SIZE, make_control_batch, make_model, random_actions
from tests.models.transformer.ablations import ABLATIONS


def make_transformer(seed: int = 0, **config) -> CaptionModel:
    return make_model(seed, variant="transformer", **config).double().eval()


@pytest.mark.parametrize("config", ABLATIONS)
def test_teacher_forcing_equals_steps(config):
    model, batch = make_transformer(**config), make_control_batch().to("cpu", torch.float64)
    actions, shifts = random_actions(1, num_rows=3, num_steps=7)
    words = actions.T
    state, last_shifts, steps = model.init_state(batch), torch.zeros(3, dtype=torch.long), []
    for time in range(6):
        step = model.step(words[:, time], last_shifts, state)
        state, last_shifts = step.state, shifts[time]
        steps.append(step)
    num_slots = batch.with_end_slot(model.config).num_slots
    pointers = pointer_positions(shifts[:6].T, num_slots)
    assert torch.equal(state.pointers, pointers)
    output = model.teacher_force(batch, words, pointers)
    rows = torch.arange(3)
    for time, step in enumerate(steps):
        next_words = words[:, time + 1]
        shift_log_probs = step.shift_log_probs
        if shift_log_probs.dim() == 3:
            shift_log_probs = shift_log_probs[rows, next_words]
        expected = step.word_log_probs[rows, next_words]
        torch.testing.assert_close(output.word_log_probs[:, time], expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(output.shift_log_probs[:, time], shift_log_probs, rtol=0, atol=1e-12)


def test_several_captions_of_an_example_share_its_tokens():
    model, batch = make_transformer(), make_control_batch().to("cpu", torch.float64)
    words, slots = torch.randint(VOCABULARY_SIZE, (6, 5)), torch.zeros(6, 4, dtype=torch.long)
    together = model.teacher_force(batch, words, slots)
    for number in range(2):
        alone = model.teacher_force(batch, words[number::2], slots[number::2])
        torch.testing.assert_close(together.word_log_probs[number::2], alone.word_log_probs)
        torch.testing.assert_close(together.shift_log_probs[number::2], alone.shift_log_probs)


def test_predictions_do_not_depend_on_later_words_or_pointers():
    model, batch = make_transformer(), make_control_batch().to("cpu", torch.float64)
    words, slots = torch.randint(VOCABULARY_SIZE, (3, 7)), torch.zeros(3, 6, dtype=torch.long)
    later_words, later_slots = words.clone(), slots.clone()
    later_words[:, 4:] = (words[:, 4:] + 1) % VOCABULARY_SIZE
    later_slots[:, 4:] = batch.num_slots[:, None] - 1
    found, changed = (model.teacher_force(batch, *each) for each in ((words, slots), (later_words, later_slots)))
    torch.testing.assert_close(found.word_log_probs[:, :3], changed.word_log_probs[:, :3])
    assert not torch.allclose(found.word_log_probs[:, 4:], changed.word_log_probs[:, 4:])


@pytest.mark.parametrize("pointer_bias", [True, False])
def test_predictions_depend_on_the_pointer(pointer_bias):
    model = make_transformer(pointer_bias=pointer_bias)
    batch = make_control_batch(controls=[[[0, 1], [2]]]).to("cpu", torch.float64)
    tokens = torch.tensor([5])
    here, there = (model.step(tokens, torch.tensor([shift]), model.init_state(batch)) for shift in (0, SHIFT))
    assert not torch.allclose(here.word_log_probs, there.word_log_probs)


def test_padding_does_not_change_predictions():
    model = make_transformer(end_slot=True)
    features = torch.randn(4, FEATURE_SIZE, dtype=torch.float64)
    controls = [[[0]], [[1, 2, 3], [0], [2]]]
    together = collate_controls(features, features[:2], controls)
    alone = collate_controls(features, features[:1], controls[:1])
    words, slots = torch.randint(VOCABULARY_SIZE, (2, 6)), torch.tensor([[0, 0, 1, 1, 1], [0, 1, 2, 3, 3]])
    expected = model.teacher_force(alone, words[:1], slots[:1])
    found = model.teacher_force(together, words, slots)
    torch.testing.assert_close(found.word_log_probs[:1], expected.word_log_probs)


def test_controls_with_more_sets_than_slot_embeddings_and_distances():
    model = make_transformer(max_slots=2, max_distance=1)
    batch = make_control_batch(controls=[[[0], [1], [2], [3], [4]]]).to("cpu", torch.float64)
    output = model.teacher_force(batch, torch.randint(VOCABULARY_SIZE, (1, 6)), torch.arange(5)[None])
    assert torch.isfinite(output.word_log_probs).all()


def test_dropout_applies_to_ground_truth_in_training_only():
    model, batch = make_transformer(dropout=0.5), make_control_batch().to("cpu", torch.float64)
    words, slots = torch.randint(VOCABULARY_SIZE, (3, 5)), torch.zeros(3, 4, dtype=torch.long)

    def log_probs(*, is_ground_truth: bool) -> torch.Tensor:
        return model.teacher_force(batch, words, slots, is_ground_truth=is_ground_truth).word_log_probs

    plain = log_probs(is_ground_truth=True)
    model.train()
    assert torch.equal(log_probs(is_ground_truth=False), plain)
    assert not torch.allclose(log_probs(is_ground_truth=True), plain)


@pytest.mark.parametrize("config", ABLATIONS)
def test_every_weight_has_a_gradient(config):
    model, batch = make_transformer(dropout=0.0, **config).requires_grad_(True), make_control_batch()
    words = torch.arange(VOCABULARY_SIZE).expand(3, -1)
    slots = torch.arange(VOCABULARY_SIZE - 1).expand(3, -1) % batch.with_end_slot(model.config).num_slots[:, None]
    output = model.teacher_force(batch.to("cpu", torch.float64), words, slots, label_smoothing=0.1)
    (output.word_log_probs.sum() + output.shift_log_probs[..., SHIFT].sum()).backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None] == []
