"""Captioners that teach another: what their share of the loss is, what is learned from it, and who may not teach."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sct.captioner.bundle import Bundle, load_bundle, save_bundle
from sct.errors import InputError
from sct.models.show_control_tell import ShowControlTell
from sct.training.captioner.config import CaptionerRecipe
from sct.training.captioner.distillation import mean_soft_targets
from sct.training.captioner.losses import cross_entropy_loss, masked_mean
from sct.training.captioner.setup import TrainingComponents, build_training, make_objective
from sct.training.captioner.trainer import train_captioner
from tests.training.tiny_runs import tiny_recipe, write_tiny_dataset

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def school(tmp_path_factory):
    """A dataset and two captioners of different sizes that have learned a little of it."""
    folder = tmp_path_factory.mktemp("school")
    data = write_tiny_dataset(folder / "data")
    larger = tiny_recipe(data, folder / "b", seed=2)
    train_captioner(tiny_recipe(data, folder / "a"))
    train_captioner(replace(larger, model=replace(larger.model, hidden_size=10, word_size=7, attention_size=5)))
    return data, folder / "a" / "last", folder / "b" / "last"


def _taught_recipe(data: Path, out: Path, *teachers: Path, weight: float = 0.5, **changes) -> CaptionerRecipe:
    recipe = tiny_recipe(data, out, **changes)
    names = ",".join(str(teacher) for teacher in teachers)
    return replace(recipe, objective=replace(recipe.objective, teachers=names, teacher_weight=weight))


def _open(recipe: CaptionerRecipe) -> TrainingComponents:
    return build_training(recipe, CPU, torch.float32)


def _loss(recipe: CaptionerRecipe, workshop: TrainingComponents, chosen: torch.Tensor):
    objective = make_objective(recipe, workshop, CPU, masked_mean)
    return objective(workshop.bundle.model, chosen, torch.zeros(()))


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_the_loss_is_the_mix_that_one_computes_step_by_step(school, tmp_path, weight):
    data, *folders = school
    recipe = _taught_recipe(data, tmp_path, *folders, weight=weight)
    recipe = replace(recipe, optimizer=replace(recipe.optimizer, label_smoothing=0.1))
    workshop, chosen = _open(recipe), torch.tensor([0, 5, 7])
    student, batch = workshop.bundle.model, workshop.feed.batch(chosen)
    along = (batch.inputs, batch.words[:, :-1], batch.slots)
    said = student.teacher_forced(*along)
    thoughts = [load_bundle(folder).model.teacher_forced(*along) for folder in folders]
    expected = [torch.stack([kind.exp() for kind in kinds]).mean(0) for kinds in zip(*thoughts, strict=True)]

    truth = torch.nn.functional.one_hot(batch.words[:, 1:], len(workshop.bundle.vocabulary))
    smooth = 0.9 * truth + 0.1 / truth.shape[2]
    word_target = (1 - weight) * smooth + weight * expected[0]
    shift_target = (1 - weight) * torch.nn.functional.one_hot(batch.shifts, 2) + weight * expected[1]
    words = -(word_target * said.word_log_probs).sum(2)[batch.spoken].mean()
    shifts = -(shift_target * said.shift_log_probs).sum(2)[batch.inside].mean()
    torch.testing.assert_close(_loss(recipe, workshop, chosen).total, 0.2 * words + 0.8 * shifts)


def test_teachers_without_weight_change_nothing(school, tmp_path):
    data, *folders = school
    recipe, chosen = _taught_recipe(data, tmp_path, *folders, weight=0.0), torch.arange(6)
    workshop = _open(recipe)
    alone = cross_entropy_loss(workshop.bundle.model, workshop.feed.batch(chosen))
    taught = _loss(recipe, workshop, chosen)
    assert torch.equal(taught.total, alone.total)
    weights = list(workshop.bundle.model.parameters())
    for one, other in zip(*(torch.autograd.grad(loss.total, weights) for loss in (alone, taught)), strict=True):
        assert torch.equal(one, other)
    assert set(alone.parts) == {"words", "shifts"}
    assert set(taught.parts) == {"words", "shifts", "taught_words", "taught_shifts"}


def test_teachers_do_not_learn(school, tmp_path):
    data, *folders = school
    recipe = _taught_recipe(data, tmp_path, *folders)
    workshop = _open(recipe)
    assert [teacher.training for teacher in workshop.teachers] == [False, False]
    _loss(recipe, workshop, torch.arange(4)).total.backward()
    for teacher in workshop.teachers:
        assert all(weight.grad is None and not weight.requires_grad for weight in teacher.parameters())


def test_a_student_comes_nearer_to_its_teacher(school, tmp_path):
    data, _, teacher = school
    taught, alone = (
        _taught_recipe(data, tmp_path / f"{weight}", teacher, weight=weight, max_steps=60, max_epochs=100)
        for weight in (1.0, 0.0)
    )
    before = _open(taught)
    batch = before.feed.batch(torch.arange(18))
    expected = mean_soft_targets(before.teachers, batch, 1.0)

    @torch.no_grad()
    def distance(captioner: ShowControlTell) -> float:
        """Share of the words that would be said otherwise."""
        said = captioner.teacher_forced(batch.inputs, batch.words[:, :-1], batch.slots).word_log_probs.exp()
        return float((said - expected.word_probs).abs().sum(2)[batch.spoken].mean() / 2)

    def distance_after(recipe: CaptionerRecipe) -> float:
        train_captioner(recipe)
        return distance(load_bundle(Path(recipe.out) / "last").model)

    # The teacher has learned little, so what people say leads away from it.
    assert distance_after(taught) < distance(before.bundle.model) / 2 < distance_after(alone)


def test_a_run_keeps_its_teachers(school, tmp_path):
    data, *folders = school
    recipe = _taught_recipe(data, tmp_path / "run", *folders, max_steps=2)
    train_captioner(recipe)
    assert CaptionerRecipe.load(tmp_path / "run" / "recipe.toml").objective == recipe.objective
    assert train_captioner(replace(recipe, max_steps=3), resume=True).step == 3
    for changes in ({"teachers": str(folders[0])}, {"teacher_weight": 0.25}):
        with pytest.raises(InputError, match=f"was begun with objective.{next(iter(changes))}="):
            train_captioner(replace(recipe, objective=replace(recipe.objective, **changes)), resume=True)


def test_half_precision_comes_near(school, tmp_path):
    data, *folders = school
    recipe, chosen = _taught_recipe(data, tmp_path, *folders), torch.arange(6)
    workshop = _open(recipe)
    exact = _loss(recipe, workshop, chosen).total
    with torch.autocast("cpu", torch.float16):
        half = _loss(recipe, workshop, chosen).total
    assert half.dtype == torch.float32
    assert not torch.equal(half, exact)
    torch.testing.assert_close(half, exact, atol=0.05, rtol=0.05)


def _resaved(bundle: Bundle, folder: Path, **changes) -> Path:
    changed = replace(bundle, **changes)
    save_bundle(folder, changed.model, changed.vocabulary, encoder=changed.encoder)
    return folder


def test_a_teacher_that_is_not_there_is_refused(school, tmp_path):
    data, one, _ = school
    with pytest.raises(InputError, match=r"^objective\.teachers: .*nowhere does not exist: expected the folder of a"):
        _open(_taught_recipe(data, tmp_path, one, tmp_path / "nowhere"))


def test_a_teacher_of_other_words_is_refused(school, tmp_path):
    data, one, _ = school
    bundle = load_bundle(one)
    words = (*bundle.vocabulary.words[:-1], "unheard")
    teacher = _resaved(bundle, tmp_path / "teacher", vocabulary=replace(bundle.vocabulary, words=words))
    with pytest.raises(InputError, match="which are not the same: expected one of the same vocabulary"):
        _open(_taught_recipe(data, tmp_path / "run", teacher))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"feature_size": 9}, "feature_size 8, .* learns feature_size 9,", id="other features"),
        pytest.param({"mode": "reference"}, "mode paper, .* learns .* mode reference", id="another mode"),
        pytest.param({"end_slot": False}, "end_slot True, .* learns .* end_slot False", id="another end"),
        pytest.param(
            {"variant": "fc_2k"}, "'show_control_tell', and 'fc_2k' is to learn", id="a student that cannot be taught"
        ),
    ],
)
def test_a_teacher_of_another_kind_is_refused(school, tmp_path, change, message):
    data, one, _ = school
    recipe = _taught_recipe(data, tmp_path, one)
    with pytest.raises(InputError, match=message):
        _open(replace(recipe, model=replace(recipe.model, **change)))


def test_a_teacher_that_cannot_teach_is_refused(school, tmp_path):
    data, *_ = school
    recipe = tiny_recipe(data, tmp_path / "teacher", max_steps=1)
    train_captioner(replace(recipe, model=replace(recipe.model, variant="controllable_lstm")))
    with pytest.raises(InputError, match="'controllable_lstm', and 'show_control_tell' is to learn"):
        _open(_taught_recipe(data, tmp_path / "run", tmp_path / "teacher" / "last"))
