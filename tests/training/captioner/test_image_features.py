"""Captioners trained on features that a vision encoder extracts from images."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sct.captioner.bundle import load_bundle
from sct.data.dataset import Dataset
from sct.errors import InputError
from sct.training.captioner.config import (
    CaptionerRecipe,
    DeviceConfig,
    ExamplesConfig,
    ModelConfig,
    OptimizerConfig,
)
from sct.training.captioner.dataloader import RegionTable
from sct.training.captioner.image_features import AugmentedFeatures, ImageFeatureExtractor
from sct.training.captioner.setup import build_training
from sct.training.captioner.trainer import train_captioner
from sct.vision.encoder import RegionVisionEncoder
from tests.factories import make_painted_dataset, make_vision_encoder


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_painted_dataset(tmp_path_factory.mktemp("painted"), num_images=16)


@pytest.fixture(scope="module")
def encoder() -> RegionVisionEncoder:
    return make_vision_encoder()


def _extractor(encoder: RegionVisionEncoder, data: Path) -> ImageFeatureExtractor:
    return ImageFeatureExtractor(encoder, Dataset.open(data), "", torch.device("cpu"))


def _recipe(data: Path, out: Path, vision: Path, **changes) -> CaptionerRecipe:
    examples = ExamplesConfig(vision=str(vision), augment=True, feature_dropout=0.1, human_oversampling=2)
    recipe = CaptionerRecipe(
        data=str(data),
        out=str(out),
        max_steps=12,
        batch_size=6,
        patience=0,
        validate_every=1.0,
        model=ModelConfig(word_size=8, hidden_size=8, attention_size=8, min_count=1),
        examples=examples,
        optimizer=OptimizerConfig(learning_rate=1e-2),
        device=DeviceConfig(accelerator="cpu", precision="32-true"),
    )
    return replace(recipe, **changes)


def test_extracted_features_equal_encoded_ones(encoder: RegionVisionEncoder, painted: Path) -> None:
    dataset = Dataset.open(painted)
    features = _extractor(encoder, painted)([3, 0])
    for index, row in enumerate((3, 0)):
        image = dataset.table.image(row)
        [encoded] = encoder.encode([dataset.load_image(image)])
        first = features.first_row[index]
        expected = np.stack([region.feature for region in encoded.regions([region.box for region in image.regions])])
        np.testing.assert_allclose(features.regions[first : first + 2].numpy(), expected, atol=1e-4)
        np.testing.assert_allclose(features.image[index].numpy(), encoded.image_feature, atol=1e-4)


def test_augmentation_changes_training_images_only(encoder: RegionVisionEncoder, painted: Path) -> None:
    dataset, extractor = Dataset.open(painted), _extractor(encoder, painted)
    plain = extractor(range(16))
    table = RegionTable(plain.regions.clone(), plain.image.clone())
    offsets = dataset.table.columns["region_offsets"].astype(np.int64)
    augmented = AugmentedFeatures(extractor, table, np.array([0, 1, 5]), offsets, dropout=0.0, seed=1)
    augmented.update(0)
    first = table.regions.clone()
    changed = [row for image in (0, 1, 5) for row in range(offsets[image], offsets[image + 1])]
    others = sorted(set(range(32)) - set(changed))
    assert not torch.isclose(first[changed], plain.regions[changed]).all(1).any()
    assert torch.equal(first[others], plain.regions[others])
    assert torch.equal(table.images[[2, 3]], plain.image[[2, 3]])
    augmented.update(1)
    assert not torch.equal(table.regions, first)
    augmented.update(0)
    assert torch.equal(table.regions, first)


def test_boxes_outside_the_image_are_extracted(encoder: RegionVisionEncoder, painted: Path) -> None:
    extractor = _extractor(encoder, painted)
    extractor._boxes[0] = torch.tensor([0.9, 0.1, 1.9, 0.5])  # as in sources without clipping
    assert len(extractor.extract([0], augmented=True).regions) == 2


def test_captioner_trains_on_images_and_keeps_its_encoder(
    encoder: RegionVisionEncoder, painted: Path, tmp_path: Path
) -> None:
    encoder.save(tmp_path / "vision.safetensors")
    report = train_captioner(_recipe(painted, tmp_path / "words", tmp_path / "vision.safetensors"))
    assert report.step == 12
    assert report.epochs == pytest.approx(12 * 6 / (12 * 3))  # 12 training images; human-grounded captions count twice
    bundle = load_bundle(tmp_path / "words" / "best")
    assert bundle.vision is not None
    assert bundle.model.config.feature_size == 16
    second = replace(
        _recipe(painted, tmp_path / "more", tmp_path / "vision.safetensors"),
        examples=ExamplesConfig(augment=True),
        start=str(tmp_path / "words" / "best"),
    )
    train_captioner(second)
    with pytest.raises(InputError, match="uses the bundle's vision encoder"):
        replace(second, examples=ExamplesConfig(vision="other.safetensors"))
    assert load_bundle(tmp_path / "more" / "best").vision is not None


def test_resumed_run_equals_an_uninterrupted_one(encoder: RegionVisionEncoder, painted: Path, tmp_path: Path) -> None:
    encoder.save(tmp_path / "vision.safetensors")
    whole = _recipe(painted, tmp_path / "whole", tmp_path / "vision.safetensors", max_steps=9)
    train_captioner(whole)
    parts = replace(whole, out=str(tmp_path / "parts"))
    train_captioner(replace(parts, max_steps=4))
    train_captioner(parts, resume=True)
    weights = [load_bundle(tmp_path / name / "last").model.state_dict() for name in ("whole", "parts")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.parametrize(("validate_on", "samples"), [("all", 8), ("human", 4)])
def test_validation_on_human_grounded_captions(
    encoder: RegionVisionEncoder, painted: Path, tmp_path: Path, validate_on: str, samples: int
) -> None:
    encoder.save(tmp_path / "vision.safetensors")
    recipe = _recipe(painted, tmp_path / "run", tmp_path / "vision.safetensors")
    examples = replace(recipe.examples, validate_on=validate_on)
    components = build_training(replace(recipe, examples=examples), torch.device("cpu"), torch.float32)
    assert components.validation is not None
    assert len(components.validation.loader) == len(components.validation.references) == samples


def test_augmentation_needs_images(painted: Path, tmp_path: Path) -> None:
    recipe = _recipe(painted, tmp_path / "run", Path("unused"))
    with pytest.raises(InputError, match="features do not come from images"):
        train_captioner(replace(recipe, examples=ExamplesConfig(augment=True)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"feature_dropout": 1.0, "augment": True}, "feature_dropout is 1.0"),
        ({"feature_dropout": 0.1}, "needs examples.augment=true"),
        ({"features": "a", "vision": "b"}, "both name a source of features"),
        ({"human_oversampling": 0}, "got examples.human_oversampling 0"),
    ],
    ids=["everything dropped", "no augmentation", "two sources", "no oversampling"],
)
def test_examples_config_rejects(settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ExamplesConfig(**settings)
