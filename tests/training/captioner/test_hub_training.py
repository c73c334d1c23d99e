"""Captioners that learn from images through models of the hub."""

from pathlib import Path

import numpy as np
import pytest
import torch

import sct
from sct.captioner.bundle import Bundle, load_bundle
from sct.captioner.captioner import Captioner
from sct.data.dataset import Dataset
from sct.regions.images import load_image
from sct.training.captioner.config import (
    CaptionerRecipe,
    DeviceConfig,
    ExamplesConfig,
    ModelConfig,
    OptimizerConfig,
)
from sct.training.captioner.image_features import ImageFeatureExtractor
from sct.training.captioner.trainer import train_captioner
from sct.vision.hub import HubConfig, HubVisionEncoder, open_hub_vision, save_hub_vision
from tests.tiny_hub import save_backbone, save_detector
from tests.training.painted_images import write_painted_dataset


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_painted_dataset(tmp_path_factory.mktemp("painted"), images=16)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_backbone(folder / "dino")
    save_detector(folder / "yolos")
    return folder


def test_features_of_a_dataset_are_those_of_the_eye(painted: Path, models: Path) -> None:
    eye = open_hub_vision(HubConfig(backbone=str(models / "dino")))
    dataset = Dataset.open(painted)
    found = ImageFeatureExtractor(eye, dataset, "", torch.device("cpu"))([3, 0])
    for place, row in enumerate((3, 0)):
        image = dataset.table.image(row)
        [sight] = eye.look([load_image(dataset.image_path(image))], [[region.box for region in image.regions]])
        first = found.first_row[place]
        expected = np.stack([region.feature for region in sight.regions])
        np.testing.assert_allclose(found.regions[first : first + 2].numpy(), expected, atol=1e-4)
        np.testing.assert_allclose(found.image[place].numpy(), sight.descriptor, atol=1e-4)


def test_views_may_be_drawn_at_random(painted: Path, models: Path) -> None:
    eye = open_hub_vision(HubConfig(backbone=str(models / "dino")))
    features = ImageFeatureExtractor(eye, Dataset.open(painted), "", torch.device("cpu"))
    plain, drawn = features([0, 1]), features.seen([0, 1], is_random=True)
    assert drawn.regions.shape == plain.regions.shape
    assert not torch.isclose(drawn.regions, plain.regions).all(1).any()


@pytest.fixture(scope="module")
def bundle(painted: Path, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A captioner that has learned from the training images, through a backbone alone."""
    folder = tmp_path_factory.mktemp("run")
    save_hub_vision(folder / "hub.safetensors", HubConfig(backbone=str(models / "dino")))
    train_captioner(
        CaptionerRecipe(
            data=str(painted),
            out=str(folder / "run"),
            max_steps=60,
            max_epochs=100,
            validate_every=10.0,
            batch_size=12,
            patience=0,
            model=ModelConfig(word_size=8, hidden_size=16, attention_size=16, min_count=1),
            examples=ExamplesConfig(vision=str(folder / "hub.safetensors")),
            optimizer=OptimizerConfig(learning_rate=1e-2, decay=1.0),
            device=DeviceConfig(accelerator="cpu", precision="32-true"),
        )
    )
    return load_bundle(folder / "run" / "best")


@pytest.mark.parametrize("order", [1, -1], ids=["left to right", "right to left"])
def test_a_captioner_learns_what_such_eyes_see(painted: Path, bundle: Bundle, order: int) -> None:
    assert isinstance(bundle.vision, HubVisionEncoder)
    captioner, dataset = sct.load(bundle.folder), Dataset.open(painted)
    for row in (3, 7, 11, 15):  # of the validation split
        image = dataset.table.image(row)
        first, second = image.regions[::order]
        caption = captioner.caption(dataset.image_path(image), [first.box, second.box])
        assert caption.text == f"a {first.class_name} near a {second.class_name}"


def test_without_a_detector_the_image_as_a_whole_is_captioned(painted: Path, bundle: Bundle) -> None:
    captioner, dataset = sct.load(bundle.folder), Dataset.open(painted)
    image = dataset.image_path(dataset.table.image(0))
    assert captioner.detect(image) == ()
    caption = captioner.caption(image)
    assert [tuple(region.box) for each in caption.control.region_sets for region in each.regions] == [(0, 0, 84, 84)]
    assert caption.text


def test_with_a_detector_its_proposals_are_captioned(painted: Path, models: Path, bundle: Bundle) -> None:
    config = HubConfig(backbone=str(models / "dino"), detector=str(models / "yolos"), score_threshold=0.0)
    captioner = Captioner(bundle.model, bundle.vocabulary, vision=open_hub_vision(config))
    dataset = Dataset.open(painted)
    image = dataset.image_path(dataset.table.image(0))
    found = captioner.detect(image)
    caption = captioner.caption(image)
    assert {region for each in caption.control.region_sets for region in each.regions} <= set(found)
    assert caption.text
