"""Distillation: the mixed loss, its effect on the student, and rejected teachers."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sct.captioner.bundle import Bundle, load_bundle, save_bundle
from sct.errors import InputError
from sct.models.show_control_tell import ShowControlTell
from sct.training.captioner.config import CaptionerRecipe
from sct.training.captioner.distillation import mean_soft_targets
from sct.training.captioner.losses import cross_entropy_loss
from sct.training.captioner.setup import TrainingComponents, build_training
from sct.training.captioner.trainer import train_captioner
from sct.training.loss import Loss
from tests.factories import make_noun_dataset, make_recipe

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A dataset and two briefly trained captioners of different sizes."""
    folder = tmp_path_factory.mktemp("trained")
    data = make_noun_dataset(folder / "data")
    larger = make_recipe(data, folder / "b", seed=2)
    train_captioner(make_recipe(data, folder / "a"))
    train_captioner(replace(larger, model=replace(larger.model, hidden_size=10, word_size=7, attention_size=5)))
    return data, folder / "a" / "last", folder / "b" / "last"


def _distillation_recipe(data: Path, out: Path, *teachers: Path, weight: float = 0.5, **changes) -> CaptionerRecipe:
    recipe = make_recipe(data, out, **changes)
    names = ",".join(str(teacher) for teacher in teachers)
    return replace(recipe, objective=replace(recipe.objective, teachers=names, teacher_weight=weight))


def _build(recipe: CaptionerRecipe) -> TrainingComponents:
    return build_training(recipe, CPU, torch.float32)


def _loss(parts: TrainingComponents, rows: torch.Tensor) -> Loss:
    return parts.objective(parts.bundle.model, rows)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_loss_mixes_ground_truth_and_soft_targets(trained, tmp_path, weight):
    data, *folders = trained
    recipe = _distillation_recipe(data, tmp_path, *folders, weight=weight)
    recipe = replace(recipe, optimizer=replace(recipe.optimizer, label_smoothing=0.1))
    parts, rows = _build(recipe), torch.tensor([0, 5, 7])
    student, batch = parts.bundle.model, parts.loader.batch(rows)
    inputs = (batch.controls, batch.words[:, :-1], batch.slots)
    student_output = student.teacher_forced_log_probs(*inputs)
    teacher_outputs = [load_bundle(folder).model.teacher_forced_log_probs(*inputs) for folder in folders]
    expected = [
        torch.stack([log_probs.exp() for log_probs in outputs]).mean(0)
        for outputs in zip(*teacher_outputs, strict=True)
    ]

    truth = torch.nn.functional.one_hot(batch.words[:, 1:], len(parts.bundle.vocabulary))
    smooth = 0.9 * truth + 0.1 / truth.shape[2]
    word_target = (1 - weight) * smooth + weight * expected[0]
    shift_target = (1 - weight) * torch.nn.functional.one_hot(batch.shifts, 2) + weight * expected[1]
    words = -(word_target * student_output.word_log_probs).sum(2)[batch.token_mask].mean()
    shifts = -(shift_target * student_output.shift_log_probs).sum(2)[batch.word_mask].mean()
    torch.testing.assert_close(_loss(parts, rows).total, 0.2 * words + 0.8 * shifts)


def test_teacher_weight_zero_changes_nothing(trained, tmp_path):
    data, *folders = trained
    recipe, rows = _distillation_recipe(data, tmp_path, *folders, weight=0.0), torch.arange(6)
    parts = _build(recipe)
    alone = cross_entropy_loss(parts.bundle.model, parts.loader.batch(rows))
    distilled = _loss(parts, rows)
    assert torch.equal(distilled.total, alone.total)
    weights = list(parts.bundle.model.parameters())
    for one, other in zip(*(torch.autograd.grad(loss.total, weights) for loss in (alone, distilled)), strict=True):
        assert torch.equal(one, other)
    assert set(alone.terms) == {"words", "shifts"}
    assert set(distilled.terms) == {"words", "shifts", "distilled_words", "distilled_shifts"}


def test_teachers_are_frozen(trained, tmp_path):
    data, *folders = trained
    recipe = _distillation_recipe(data, tmp_path, *folders)
    parts = _build(recipe)
    teachers = parts.objective._teachers
    assert [teacher.training for teacher in teachers] == [False, False]
    _loss(parts, torch.arange(4)).total.backward()
    for teacher in teachers:
        assert all(weight.grad is None and not weight.requires_grad for weight in teacher.parameters())


def test_student_approaches_its_teacher(trained, tmp_path):
    data, _, teacher = trained
    distilled, alone = (
        _distillation_recipe(data, tmp_path / f"{weight}", teacher, weight=weight, max_steps=60, max_epochs=100)
        for weight in (1.0, 0.0)
    )
    before = _build(distilled)
    batch = before.loader.batch(torch.arange(18))
    expected = mean_soft_targets(before.objective._teachers, batch, 1.0)

    @torch.no_grad()
    def distance(model: ShowControlTell) -> float:
        """Mean total variation distance of the word distributions."""
        probs = model.teacher_forced_log_probs(batch.controls, batch.words[:, :-1], batch.slots).word_log_probs.exp()
        return float((probs - expected.word_probs).abs().sum(2)[batch.token_mask].mean() / 2)

    def distance_after(recipe: CaptionerRecipe) -> float:
        train_captioner(recipe)
        return distance(load_bundle(Path(recipe.out) / "last").model)

    # The teacher is barely trained, so ground truth leads away from it.
    assert distance_after(distilled) < distance(before.bundle.model) / 2 < distance_after(alone)


def test_resume_rejects_other_teachers(trained, tmp_path):
    data, *folders = trained
    recipe = _distillation_recipe(data, tmp_path / "run", *folders, max_steps=2)
    train_captioner(recipe)
    assert CaptionerRecipe.load(tmp_path / "run" / "recipe.toml").objective == recipe.objective
    assert train_captioner(replace(recipe, max_steps=3), resume=True).step == 3
    for changes in ({"teachers": str(folders[0])}, {"teacher_weight": 0.25}):
        with pytest.raises(InputError, match=f"was started with objective.{next(iter(changes))}="):
            train_captioner(replace(recipe, objective=replace(recipe.objective, **changes)), resume=True)


def test_loss_in_half_precision(trained, tmp_path):
    data, *folders = trained
    recipe, rows = _distillation_recipe(data, tmp_path, *folders), torch.arange(6)
    parts = _build(recipe)
    exact = _loss(parts, rows).total
    with torch.autocast("cpu", torch.float16):
        half = _loss(parts, rows).total
    assert half.dtype == torch.float32
    assert not torch.equal(half, exact)
    torch.testing.assert_close(half, exact, atol=0.05, rtol=0.05)


def _save_changed(bundle: Bundle, folder: Path, **changes) -> Path:
    changed = replace(bundle, **changes)
    save_bundle(folder, changed.model, changed.vocabulary, encoder=changed.encoder)
    return folder


def test_rejects_a_missing_teacher(trained, tmp_path):
    data, one, _ = trained
    with pytest.raises(InputError, match=r"^objective\.teachers: .*nowhere does not exist"):
        _build(_distillation_recipe(data, tmp_path, one, tmp_path / "nowhere"))


def test_rejects_a_wrong_teacher_before_features_are_computed(trained, tmp_path, monkeypatch):
    def compute_features(*args, **kwargs):
        raise AssertionError("features were computed")

    data, one, _ = trained
    monkeypatch.setattr("sct.training.captioner.setup.make_features", compute_features)
    monkeypatch.setattr("sct.training.captioner.setup.ImageFeatureExtractor", compute_features)
    with pytest.raises(AssertionError, match="features were computed"):
        _build(_distillation_recipe(data, tmp_path, one))
    with pytest.raises(InputError, match=r"^objective\.teachers: "):
        _build(_distillation_recipe(data, tmp_path, one, tmp_path / "nowhere"))


def test_rejects_a_teacher_of_another_vocabulary(trained, tmp_path):
    data, one, _ = trained
    bundle = load_bundle(one)
    words = (*bundle.vocabulary.words[:-1], "unheard")
    teacher = _save_changed(bundle, tmp_path / "teacher", vocabulary=replace(bundle.vocabulary, words=words))
    with pytest.raises(InputError, match=r"is not the student's .* expected the same vocabulary"):
        _build(_distillation_recipe(data, tmp_path / "run", teacher))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"feature_size": 9}, "has feature_size 8, .* expected feature_size 9,", id="feature size"),
        pytest.param({"mode": "reference"}, "mode paper, .* expected .* mode reference", id="mode"),
        pytest.param({"end_slot": False}, "end_slot True: expected .* end_slot False", id="end slot"),
        pytest.param({"variant": "fc_2k"}, "'show_control_tell' and the student is 'fc_2k'", id="student variant"),
    ],
)
def test_rejects_teachers_of_another_config(trained, tmp_path, change, message):
    data, one, _ = trained
    recipe = _distillation_recipe(data, tmp_path, one)
    with pytest.raises(InputError, match=message):
        _build(replace(recipe, model=replace(recipe.model, **change)))


def test_rejects_teachers_of_another_variant(trained, tmp_path):
    data, *_ = trained
    recipe = make_recipe(data, tmp_path / "teacher", max_steps=1)
    train_captioner(replace(recipe, model=replace(recipe.model, variant="controllable_lstm")))
    with pytest.raises(InputError, match="'controllable_lstm' and the student is 'show_control_tell'"):
        _build(_distillation_recipe(data, tmp_path / "run", tmp_path / "teacher" / "last"))
