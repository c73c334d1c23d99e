"""The paper as printed trains on the tiny corpus, all stages, by its recipes."""

import json
from pathlib import Path

import pytest
import torch

from sct.captioner.bundle import load_bundle
from sct.cli.main import run
from sct.training.captioner.config import CaptionerRecipe
from sct.training.captioner.setup import build_training
from sct.training.metric_logger import read_metrics

ROOT = Path(__file__).parents[3]
SMALL = {
    "model.word_size": 16,
    "model.hidden_size": 16,
    "model.attention_size": 8,
    "model.feature_size": 16,
    "model.min_count": 1,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper")
    assert run(["prepare", str(ROOT / "examples" / "tiny"), str(folder / "tiny")]) == 0
    for stage in ("cross_entropy", "cider", "cider_and_nw"):
        overrides = [f"data={folder / 'tiny'}", f"out={folder / stage}", "batch_size=10", "max_steps=3"]
        if stage == "cross_entropy":
            overrides += [f"{key}={value}" for key, value in SMALL.items()]
        else:
            overrides += [f"from={folder / 'cross_entropy' / 'best'}"]
        assert run(["train", f"paper/{stage}", *overrides, "device.accelerator=cpu", "--json"]) == 0
    return folder


@pytest.mark.parametrize("stage", ["cross_entropy", "cider", "cider_and_nw"])
def test_each_stage_trains_and_is_selected_by_cider(trained, stage):
    recipe = CaptionerRecipe.load(trained / stage / "recipe.toml")
    assert recipe.objective.stage == stage
    config = load_bundle(trained / stage / "best").model.config
    assert (config.mode, config.end_slot, config.hidden_size) == ("paper", False, 16)
    lines = list(read_metrics(trained / stage))
    assert any("C" in line for line in lines if line["kind"] == "validation")
    assert json.dumps(lines).count("NaN") == 0


@pytest.mark.parametrize("holdout", [0.0, 0.3])
def test_the_best_step_is_selected_on_the_val_split_or_on_held_out_training_images(trained, holdout):
    recipe = CaptionerRecipe.load(trained / "cross_entropy" / "recipe.toml", [f"examples.holdout={holdout}"])
    parts = build_training(recipe, torch.device("cpu"), torch.float32)
    table, images = parts.dataset.table, parts.validation.loader.images()
    splits = {table.splits[table.columns["image_split"][image]] for image in images}
    assert splits == ({"train"} if holdout else {"val"})
    assert not set(images) & set(parts.examples.image.tolist())
