"""Rows whose features come from images, which are looked at once for all of them."""

import json
from dataclasses import replace

import pytest
import torch

from sct.data.dataset import Dataset
from sct.reproduction.predictions import PredictionPlace, Speaker
from sct.reproduction.request import Request
from sct.reproduction.runs import Workplace
from sct.reproduction.stand_in import SubstituteDataset
from sct.reproduction.table import reproduce
from sct.training.captioner.image_features import ImageFeatureExtractor
from sct.vision.encoder import RegionVisionEncoder
from sct.vision.region_network import RegionEncoder, RegionEncoderConfig
from sct.vision.vit import TransformerConfig
from tests.reproduction.made_rows import RECIPES, some_rows
from tests.reproduction.tiny_data import SMALL, tiny_dataset

NAME = "flickr8k_images_controllable_up_down_words"
TABLE = some_rows("tableA2", ("controllable_up_down",))


@pytest.fixture(scope="module")
def request_with_images(tmp_path_factory):
    """A dataset whose images have moved, and what sees."""
    root = tmp_path_factory.mktemp("seeing")
    data = tiny_dataset(root / "tiny", source="grounded JSONL", image_folder=root / "images")
    torch.manual_seed(1)
    transformer = TransformerConfig(width=24, heads=2, depth=2, grid=2)
    config = RegionEncoderConfig(num_classes=2, side=28, reduced=8, feature_size=16, transformer=transformer)
    RegionVisionEncoder(RegionEncoder(config), ("ball", "box")).save(root / "vision.safetensors")
    (root / "images").rename(root / "moved")
    place = Workplace(
        data=data,
        runs=root / "runs",
        recipes=RECIPES,
        settings=(*SMALL, f"words:examples.vision={root}/vision.safetensors"),
        accelerator="cpu",
        image_folder=root / "moved",
    )
    return Request(place=place, seeds=1, metrics=("C",))


@pytest.fixture(scope="module")
def made(request_with_images):
    return reproduce(TABLE, request_with_images, print)


def test_a_rival_that_sees_is_made_by_our_recipe(made, request_with_images):
    assert made.failures() == {}
    [command] = made.commands()
    assert command.startswith(f"sct train {RECIPES}/flickr8k_images_words.toml ")
    assert " model.variant=controllable_up_down " in f"{command} "
    assert "image_folder=" not in command  # where they are is no part of what was learned
    [row] = made.results.values()
    assert row.figure("C") is not None


def test_images_are_looked_at_once_for_all_rows(made, request_with_images, tmp_path, monkeypatch):
    place = request_with_images.place
    looked, look = [], ImageFeatureExtractor.__call__

    def counted(self, images):
        looked.append(list(images))
        return look(self, images)

    monkeypatch.setattr(ImageFeatureExtractor, "__call__", counted)
    speaker = Speaker(SubstituteDataset.open(place.data), "val", device="cpu", image_folder=place.image_folder)
    best = place.runs / NAME / "best"
    for run in ("one", "other"):
        speaker.say(PredictionPlace(tmp_path / run, "sequence", "val"), best, None)
    assert looked == [[3, 7, 11]]
    said = [PredictionPlace(tmp_path / run, "sequence", "val").file.read_text() for run in ("one", "other")]
    assert said[0] == said[1] == PredictionPlace(place.runs / NAME, "sequence", "val").file.read_text()
    assert {json.loads(line)["image"] for line in said[0].splitlines()} == {"3", "7", "11"}


def test_images_that_are_nowhere_are_a_fault_of_the_row(made, request_with_images, tmp_path):
    place = replace(request_with_images.place, image_folder=None)
    assert Dataset.open(place.data).manifest.image_folder
    (place.runs / NAME / "evaluation" / "sequence-val" / "made_of.json").unlink()
    again = reproduce(TABLE, replace(request_with_images, place=place), print)
    assert "the images of the dataset are not in" in again.failures()[NAME]
