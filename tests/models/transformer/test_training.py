"""The transformer learns by the same loop and recipes as the paper's model, and bundles of it work like its bundles."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import sct
from sct.captioner.bundle import load_bundle
from sct.data.dataset import Dataset
from sct.data.features import LayoutFeatures
from sct.errors import InputError
from sct.evaluation.config import EvaluationConfig
from sct.evaluation.evaluate import Evaluator
from sct.models.transformer.model import TransformerCaptioner
from sct.training.captioner.config import CaptionerRecipe, ModelConfig, OptimizerConfig, TransformerSettings
from sct.training.captioner.setup import build_training
from sct.training.captioner.trainer import learning_rate, train_captioner
from sct.training.metric_logger import read_metrics
from tests.factories import TRANSFORMER_SIZES, make_noun_dataset, make_recipe

RECIPES = Path(__file__).parents[3] / "recipes"
MODEL = ModelConfig(
    variant="transformer", word_size=16, hidden_size=16, attention_size=16, feature_size=16, min_count=1
)
TRANSFORMER = TransformerSettings(**TRANSFORMER_SIZES, dropout=0.05)
OPTIMIZER = OptimizerConfig(learning_rate=5e-3, schedule="cosine", warmup_steps=5)


def make_transformer_recipe(data: Path, out: Path, **changes) -> CaptionerRecipe:
    recipe = make_recipe(data, out, **({"optimizer": OPTIMIZER} | changes))
    return recipe if recipe.start else replace(recipe, model=MODEL, transformer=TRANSFORMER)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return make_noun_dataset(tmp_path_factory.mktemp("transformer") / "tiny")


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory) -> Path:
    """Run of the cross-entropy stage."""
    out = tmp_path_factory.mktemp("trained") / "run"
    recipe = make_transformer_recipe(data, out, max_steps=160, max_epochs=200, batch_size=6, validate_every=40)
    train_captioner(recipe)
    return out


def test_cross_entropy_training_fits_the_captions_in_the_order_of_the_control(trained, data):
    losses = [line for line in read_metrics(trained) if line["kind"] == "train"]
    assert losses[-1]["words"] < 0.4 * losses[0]["words"]
    captioner, dataset = sct.load(trained / "last"), Dataset.open(data)
    features = LayoutFeatures(captioner.encoder, dataset.table)
    evaluator = Evaluator(captioner, dataset, features, EvaluationConfig(split="train", metrics=("C",)))
    predictions = evaluator.caption()
    assert sum(line.prediction in line.references for line in predictions) > 0.8 * len(predictions)


@pytest.mark.parametrize("stage", ["cider", "cider_and_nw"])
def test_self_critical_training_updates_the_transformer(stage, trained, data, tmp_path):
    optimizer = OptimizerConfig(learning_rate=1e-3, decay_every=0)
    recipe = make_transformer_recipe(
        data,
        tmp_path / "run",
        start=trained / "last",
        stage=stage,
        num_samples=3,
        baseline="leave_one_out",
        optimizer=optimizer,
    )
    assert train_captioner(recipe).finished
    before, after = (load_bundle(folder).model for folder in (trained / "last", tmp_path / "run" / "last"))
    assert isinstance(after, TransformerCaptioner)
    assert after.config == before.config
    assert not torch.equal(after.vocab_projection.weight, before.vocab_projection.weight)


def test_a_resumed_run_with_dropout_equals_an_uninterrupted_one(data, tmp_path):
    halves = make_transformer_recipe(data, tmp_path / "halves", optimizer=replace(OPTIMIZER, schedule="step"))
    train_captioner(replace(halves, out=str(tmp_path / "whole")))
    train_captioner(replace(halves, max_steps=3))
    train_captioner(halves, resume=True)
    expected, found = (load_bundle(tmp_path / name / "last").model.state_dict() for name in ("whole", "halves"))
    assert all(torch.equal(weight, found[name]) for name, weight in expected.items())


def test_init_language_from_copies_all_weights(trained, data, tmp_path):
    recipe = make_transformer_recipe(data, tmp_path)
    recipe = replace(
        recipe,
        model=replace(MODEL, init_language_from=str(trained / "last")),
        transformer=replace(TRANSFORMER, dropout=0.3),
    )
    bundle = build_training(recipe, torch.device("cpu"), torch.float32).bundle
    learned = load_bundle(trained / "last").model.state_dict()
    assert all(torch.equal(weight, learned[name]) for name, weight in bundle.model.state_dict().items())


def test_rejects_settings_of_the_transformer_for_another_model(data, tmp_path):
    recipe = make_recipe(data, tmp_path)
    with pytest.raises(InputError, match="transformer has settings, but the model is 'show_control_tell'"):
        replace(recipe, transformer=TRANSFORMER)
    with pytest.raises(InputError, match="transformer has settings, but the model is that of runs/x"):
        replace(recipe, model=MODEL, transformer=TRANSFORMER, start="runs/x")


@pytest.mark.parametrize("name", ["language", "cross_entropy", "cider", "cider_and_nw"])
def test_shipped_recipes_load(name):
    overrides = ["from=runs/x/best"] if "cider" in name else []
    recipe = CaptionerRecipe.load(RECIPES / "transformer" / f"{name}.toml", overrides)
    assert recipe.start or recipe.model.variant == "transformer"


def test_learning_rate_schedules():
    config = OptimizerConfig(learning_rate=1.0, warmup_steps=4, decay=0.5, decay_every=2)
    assert [learning_rate(config, step, step / 2, 10) for step in range(10)] == [
        *(0.25, 0.5, 0.75, 1.0),
        *(0.5, 0.5, 0.5, 0.5, 0.25, 0.25),
    ]
    cosine = [learning_rate(replace(config, schedule="cosine"), step, 0.0, 10) for step in range(4, 10)]
    assert cosine == sorted(cosine, reverse=True)
    assert cosine[0] == 1.0
    assert 0 < cosine[-1] < 0.1
