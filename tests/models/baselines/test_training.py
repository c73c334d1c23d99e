"""Each model learns the tiny dataset by the same loop as ours, in both kinds of stage, and is evaluated like ours."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import sct
from sct.captioner.bundle import load_bundle
from sct.data.dataset import Dataset
from sct.data.features import LayoutFeatures
from sct.evaluation.config import EvaluationConfig
from sct.evaluation.evaluate import Evaluator
from sct.training.captioner.config import CaptionerRecipe, ModelConfig, OptimizerConfig
from sct.training.captioner.model_init import new_model
from sct.training.captioner.trainer import train_captioner
from sct.training.metric_logger import read_metrics
from tests.factories import make_noun_dataset, make_recipe
from tests.models.variants import BASELINES

RECIPES = Path(__file__).parents[3] / "recipes"
SIZES = {"word_size": 24, "hidden_size": 24, "attention_size": 12, "feature_size": 32, "min_count": 1}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return make_noun_dataset(tmp_path_factory.mktemp("systems") / "tiny")


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """The run of each model, made when it is first asked for."""
    runs: dict[str, Path] = {}

    def run(variant: str) -> Path:
        if variant not in runs:
            runs[variant] = tmp_path_factory.mktemp(variant) / "run"
            steps = 400 if variant == "ag_cvae" else 160  # its hidden vector has to be made out first
            recipe = make_recipe(
                data, runs[variant], max_steps=steps, max_epochs=200, batch_size=6, validate_every=steps // 4
            )
            train_captioner(replace(recipe, model=ModelConfig(variant=variant, **SIZES)))
        return runs[variant]

    return run


def word_losses(out: Path) -> list[float]:
    return [line["words"] for line in read_metrics(out) if line["kind"] == "train"]


def predict(bundle: Path, data: Path, split: str) -> list[tuple[str, tuple[str, ...]]]:
    """Each caption with its references."""
    captioner, dataset = sct.load(bundle), Dataset.open(data)
    features = LayoutFeatures(captioner.encoder, dataset.table)
    evaluator = Evaluator(captioner, dataset, features, EvaluationConfig(split=split, metrics=("C",)))
    return [(line.prediction, line.references) for line in evaluator.caption()]


@pytest.mark.parametrize("variant", BASELINES)
def test_cross_entropy_training_fits_the_captions(variant, data, trained):
    losses = word_losses(trained(variant))
    assert losses[-1] < 0.4 * losses[0]
    predictions = predict(trained(variant) / "last", data, "train")
    # Without a sense of order, one of the two captions of an image is as good as the other.
    mirrored = [
        {*references, *(" ".join(text.split()[3:] + text.split()[2:3] + text.split()[:2]) for text in references)}
        for _, references in predictions
    ]
    right = [caption in texts for (caption, _), texts in zip(predictions, mirrored, strict=True)]
    assert sum(right) > 0.8 * len(right)


def test_controllable_lstm_follows_the_order_of_the_control(data, trained):
    predictions = predict(trained("controllable_lstm") / "last", data, "train")
    assert sum(caption in references for caption, references in predictions) > 0.8 * len(predictions)


@pytest.mark.parametrize("variant", BASELINES)
def test_captions_do_not_depend_on_an_ignored_control(variant, data, trained):
    bundle = load_bundle(trained(variant) / "last")
    captions: dict[tuple[str, ...], set[str]] = {}
    for caption, references in predict(bundle.folder, data, "train"):
        captions.setdefault(tuple(sorted(references[0].split())), set()).add(caption)
    if bundle.model.config.ignores_control or variant == "fc_2k":
        assert all(len(texts) == 1 for texts in captions.values())


@pytest.mark.parametrize("variant", BASELINES)
def test_self_critical_training_updates_every_baseline(variant, data, trained, tmp_path):
    start = trained(variant) / "last"
    recipe = make_recipe(
        data,
        tmp_path / "run",
        start=start,
        stage="cider",
        num_samples=3,
        baseline="leave_one_out",
        max_steps=8,
        optimizer=OptimizerConfig(learning_rate=1e-3, decay_every=0),
    )
    report = train_captioner(recipe)
    assert report.finished
    before, after = (load_bundle(folder).model.state_dict() for folder in (start, tmp_path / "run" / "last"))
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert [line["cider"] for line in read_metrics(tmp_path / "run") if line["kind"] == "train"][-1] > 0


@pytest.mark.parametrize("variant", ["ag_cvae", "pos"])
def test_latents_give_several_captions_per_image(variant, data, trained):
    captioner, dataset = sct.load(trained(variant) / "last"), Dataset.open(data)
    features = LayoutFeatures(captioner.encoder, dataset.table)
    evaluator = Evaluator(captioner, dataset, features, EvaluationConfig(split="train", metrics=("C",)))
    assert captioner.has_latents
    lines = evaluator.caption_n_times(4)
    assert [line.image for line in lines] == [name for name in dataset.table.image_ids if int(name) % 4 != 3]
    assert all(len(set(line.predictions)) == len(line.predictions) <= 4 for line in lines)
    assert sum(len(line.predictions) for line in lines) > 1.5 * len(lines)


@pytest.mark.parametrize("variant", BASELINES)
def test_the_cross_entropy_recipe_trains_every_variant(variant):
    own = RECIPES / "coco_layout" / f"cross_entropy_{variant}.toml"
    path = own if own.is_file() else own.with_name("cross_entropy.toml")
    recipe = CaptionerRecipe.load(path, [] if path == own else [f"model.variant={variant}"])
    assert (recipe.objective.stage, recipe.model.variant) == ("cross_entropy", variant)


def test_parts_of_speech_come_from_the_dataset_where_it_has_them(data, monkeypatch):
    dataset = Dataset.open(data)
    tagged = replace(dataset, tags="X" * len(dataset.vocabulary))
    monkeypatch.setattr("sct.data.corpus_words.PosTagger", lambda: pytest.fail("nobody has to be asked"))
    settings = replace(ModelConfig(**SIZES), variant="pos")
    captioner = new_model(settings, tagged, "train", dataset.vocabulary.with_min_count(2), 32)
    assert set(captioner.config.tag_of_word) == {"X"}
    assert captioner.config.templates == "XXXXX"
