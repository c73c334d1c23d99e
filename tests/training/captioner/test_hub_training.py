"""Captioners trained on features of vision encoders from the Hugging Face Hub."""

from pathlib import Path

import numpy as np
import pytest
import torch

import sct
from sct.captioner.bundle import Bundle, load_bundle
from sct.captioner.captioner import Captioner
from sct.data.dataset import Dataset
from sct.training.captioner.config import (
    CaptionerRecipe,
    DeviceConfig,
    ExamplesConfig,
    ModelConfig,
    OptimizerConfig,
)
from sct.training.captioner.image_features import ImageFeatureExtractor
from sct.training.captioner.trainer import train_captioner
from sct.vision.hub import HubConfig, HubVisionEncoder, build_hub_vision, save_hub_vision
from tests.factories import make_painted_dataset
from tests.vision.hub_models import save_backbone, save_detector


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_painted_dataset(tmp_path_factory.mktemp("painted"), num_images=16)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_backbone(folder / "dino")
    save_detector(folder / "yolos")
    return folder


def test_extracted_features_equal_encoded_ones(painted: Path, models: Path) -> None:
    encoder = build_hub_vision(HubConfig(backbone=str(models / "dino")))
    dataset = Dataset.open(painted)
    features = ImageFeatureExtractor(encoder, dataset, "", torch.device("cpu"))([3, 0])
    for index, row in enumerate((3, 0)):
        image = dataset.table.image(row)
        [encoded] = encoder.encode([dataset.load_image(image)])
        first = features.first_row[index]
        expected = np.stack([region.feature for region in encoded.regions([region.box for region in image.regions])])
        np.testing.assert_allclose(features.regions[first : first + 2].numpy(), expected, atol=1e-4)
        np.testing.assert_allclose(features.image[index].numpy(), encoded.image_feature, atol=1e-4)


def test_augmentation_changes_features(painted: Path, models: Path) -> None:
    encoder = build_hub_vision(HubConfig(backbone=str(models / "dino")))
    extractor = ImageFeatureExtractor(encoder, Dataset.open(painted), "", torch.device("cpu"))
    plain, augmented = extractor([0, 1]), extractor.extract([0, 1], augmented=True)
    assert augmented.regions.shape == plain.regions.shape
    assert not torch.isclose(augmented.regions, plain.regions).all(1).any()


@pytest.fixture(scope="module")
def bundle(painted: Path, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A captioner trained on features of a backbone without a detector."""
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
def test_captioner_learns_from_hub_features(painted: Path, bundle: Bundle, order: int) -> None:
    assert isinstance(bundle.vision, HubVisionEncoder)
    captioner, dataset = sct.load(bundle.folder), Dataset.open(painted)
    for row in (3, 7, 11, 15):  # validation split
        image = dataset.table.image(row)
        first, second = image.regions[::order]
        caption = captioner.caption(dataset.load_image(image), [first.box, second.box])
        assert caption.text == f"a {first.class_name} near a {second.class_name}"


def test_without_a_detector_the_whole_image_is_captioned(painted: Path, bundle: Bundle) -> None:
    captioner, dataset = sct.load(bundle.folder), Dataset.open(painted)
    image = dataset.load_image(dataset.table.image(0))
    assert captioner.detect(image) == ()
    caption = captioner.caption(image)
    assert [tuple(region.box) for each in caption.control.region_sets for region in each.regions] == [(0, 0, 84, 84)]
    assert caption.text


def test_with_a_detector_its_detections_are_captioned(painted: Path, models: Path, bundle: Bundle) -> None:
    config = HubConfig(backbone=str(models / "dino"), detector=str(models / "yolos"), score_threshold=0.0)
    captioner = Captioner(bundle.model, bundle.vocabulary, vision=build_hub_vision(config))
    dataset = Dataset.open(painted)
    image = dataset.load_image(dataset.table.image(0))
    detected = captioner.detect(image)
    caption = captioner.caption(image)
    assert {region for each in caption.control.region_sets for region in each.regions} <= set(detected)
    assert caption.text
