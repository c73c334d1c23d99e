"""Rows whose region features come from images, which are encoded once for all rows."""

import json
from dataclasses import replace

import pytest
import torch

from sct.data.dataset import Dataset
from sct.reproduction.evaluate_rows import reproduce
from sct.reproduction.predictions import PredictionCache, PredictionDir
from sct.reproduction.runs import SubstituteDataset
from sct.training.captioner.image_features import ImageFeatureExtractor
from sct.vision.encoder import RegionVisionEncoder
from sct.vision.region_network import RegionEncoder, RegionEncoderConfig
from sct.vision.vit import ViTConfig
from tests.factories import make_noun_dataset
from tests.reproduction.helpers import RECIPES, SMALL, make_config, select_rows

NAME = "flickr8k_images/cross_entropy_controllable_up_down"
TABLE = select_rows("tableA2", ("controllable_up_down",))


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """A dataset whose images have moved, and a vision encoder."""
    root = tmp_path_factory.mktemp("images")
    data = make_noun_dataset(root / "tiny", source="grounded JSONL", image_folder=root / "images")
    torch.manual_seed(1)
    vit = ViTConfig(width=24, num_heads=2, depth=2, grid_size=2)
    encoder_config = RegionEncoderConfig(num_classes=2, image_size=28, reduced_channels=8, feature_size=16, vit=vit)
    RegionVisionEncoder(RegionEncoder(encoder_config), ("ball", "box")).save(root / "vision.safetensors")
    (root / "images").rename(root / "moved")
    return make_config(
        root,
        data,
        overrides=(*SMALL, f"cross_entropy:examples.vision={root}/vision.safetensors"),
        images=(root / "moved",),
        metrics=("C",),
    )


@pytest.fixture(scope="module")
def result(config):
    return reproduce(TABLE, config, print)


def test_a_baseline_is_trained_by_the_shared_recipe(result):
    assert result.failures() == {}
    [command] = result.commands()
    assert command.startswith(f"sct train {RECIPES}/flickr8k_images/cross_entropy.toml ")
    assert " model.variant=controllable_up_down " in f"{command} "
    assert "images=" not in command  # where images are does not change the model
    [row] = result.results.values()
    assert row.figure("C") is not None


def test_images_are_encoded_once_for_all_rows(result, config, tmp_path, monkeypatch):
    encoded, extract = [], ImageFeatureExtractor.__call__

    def count(self, images):
        encoded.append(list(images))
        return extract(self, images)

    monkeypatch.setattr(ImageFeatureExtractor, "__call__", count)
    cache = PredictionCache(SubstituteDataset.open(config.data), "val", device="cpu", images=config.images)
    for run in ("one", "other"):
        cache.predict(PredictionDir(tmp_path / run, "sequence", "val"), config.runs / NAME / "best", None)
    assert encoded == [[3, 7, 11]]
    texts = [PredictionDir(tmp_path / run, "sequence", "val").predictions.read_text() for run in ("one", "other")]
    assert texts[0] == texts[1] == PredictionDir(config.runs / NAME, "sequence", "val").predictions.read_text()
    assert {json.loads(line)["image"] for line in texts[0].splitlines()} == {"3", "7", "11"}


def test_missing_images_fail_the_row(result, config):
    config = replace(config, images=())
    assert Dataset.open(config.data).manifest.images
    (config.runs / NAME / "evaluation" / "sequence-val" / "provenance.json").unlink()
    again = reproduce(TABLE, config, print)
    assert "the images of the dataset are missing" in again.failures()[NAME]
