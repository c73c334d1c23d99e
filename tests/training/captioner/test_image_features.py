"""Captioners that learn from images, through a network that sees."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sct.captioner.bundle import load_bundle
from sct.data.dataset import Dataset
from sct.errors import InputError
from sct.regions.images import load_image
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
from sct.vision.region_network import RegionEncoder, RegionEncoderConfig
from sct.vision.vit import TransformerConfig
from tests.training.painted_images import write_painted_dataset


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_painted_dataset(tmp_path_factory.mktemp("painted"), images=16)


@pytest.fixture(scope="module")
def eye() -> RegionVisionEncoder:
    torch.manual_seed(1)
    transformer = TransformerConfig(width=24, heads=2, depth=2, grid=6)
    return RegionVisionEncoder(
        RegionEncoder(RegionEncoderConfig(num_classes=2, side=84, reduced=8, feature_size=16, transformer=transformer)),
        ("ball", "box"),
    )


def _features(eye: RegionVisionEncoder, data: Path) -> ImageFeatureExtractor:
    return ImageFeatureExtractor(eye, Dataset.open(data), "", torch.device("cpu"))


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


def test_features_are_those_of_the_eye(eye: RegionVisionEncoder, painted: Path) -> None:
    dataset = Dataset.open(painted)
    found = _features(eye, painted)([3, 0])
    for place, row in enumerate((3, 0)):
        image = dataset.table.image(row)
        [sight] = eye.look([load_image(dataset.image_path(image))], [[region.box for region in image.regions]])
        first = found.first_row[place]
        expected = np.stack([region.feature for region in sight.regions])
        np.testing.assert_allclose(found.regions[first : first + 2].numpy(), expected, atol=1e-4)
        np.testing.assert_allclose(found.image[place].numpy(), sight.descriptor, atol=1e-4)


def test_views_change_what_is_trained_on_and_nothing_else(eye: RegionVisionEncoder, painted: Path) -> None:
    dataset, features = Dataset.open(painted), _features(eye, painted)
    plain = features(range(16))
    table = RegionTable(plain.regions.clone(), plain.image.clone())
    ends = dataset.table.columns["region_offsets"].astype(np.int64)
    views = AugmentedFeatures(features, table, np.array([0, 1, 5]), ends, dropout=0.0, seed=1)
    views.draw(0)
    first = table.regions.clone()
    drawn = [row for image in (0, 1, 5) for row in range(ends[image], ends[image + 1])]
    others = sorted(set(range(32)) - set(drawn))
    assert not torch.isclose(first[drawn], plain.regions[drawn]).all(1).any()
    assert torch.equal(first[others], plain.regions[others])
    assert torch.equal(table.images[[2, 3]], plain.image[[2, 3]])
    views.draw(1)
    assert not torch.equal(table.regions, first)
    views.draw(0)
    assert torch.equal(table.regions, first)


def test_a_box_that_leaves_its_image_is_drawn_as_well(eye: RegionVisionEncoder, painted: Path) -> None:
    features = _features(eye, painted)
    features._boxes[0] = torch.tensor([0.9, 0.1, 1.9, 0.5])  # as sources without clipping may have it
    assert len(features.seen([0], is_random=True).regions) == 2


def test_a_captioner_learns_from_images_and_keeps_its_eyes(
    eye: RegionVisionEncoder, painted: Path, tmp_path: Path
) -> None:
    eye.save(tmp_path / "vision.safetensors")
    report = train_captioner(_recipe(painted, tmp_path / "words", tmp_path / "vision.safetensors"))
    assert report.step == 12
    assert report.epochs == pytest.approx(12 * 6 / (12 * 3))  # 12 training images; people's captions count twice
    bundle = load_bundle(tmp_path / "words" / "best")
    assert bundle.vision is not None
    assert bundle.model.config.feature_size == 16
    second = replace(
        _recipe(painted, tmp_path / "more", tmp_path / "vision.safetensors"),
        examples=ExamplesConfig(augment=True),
        start=str(tmp_path / "words" / "best"),
    )
    train_captioner(second)
    with pytest.raises(InputError, match="sees with the bundle's"):
        replace(second, examples=ExamplesConfig(vision="other.safetensors"))
    assert load_bundle(tmp_path / "more" / "best").vision is not None


def test_a_stopped_run_ends_as_one_that_was_not(eye: RegionVisionEncoder, painted: Path, tmp_path: Path) -> None:
    eye.save(tmp_path / "vision.safetensors")
    whole = _recipe(painted, tmp_path / "whole", tmp_path / "vision.safetensors", max_steps=9)
    train_captioner(whole)
    parts = replace(whole, out=str(tmp_path / "parts"))
    train_captioner(replace(parts, max_steps=4))
    train_captioner(parts, resume=True)
    weights = [load_bundle(tmp_path / name / "last").model.state_dict() for name in ("whole", "parts")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.parametrize(("validate_on", "samples"), [("all", 8), ("people", 4)])
def test_validation_may_judge_by_what_people_grounded_alone(
    eye: RegionVisionEncoder, painted: Path, tmp_path: Path, validate_on: str, samples: int
) -> None:
    eye.save(tmp_path / "vision.safetensors")
    recipe = _recipe(painted, tmp_path / "run", tmp_path / "vision.safetensors")
    examples = replace(recipe.examples, validate_on=validate_on)
    workshop = build_training(replace(recipe, examples=examples), torch.device("cpu"), torch.float32)
    assert workshop.validation is not None
    assert len(workshop.validation.feed) == len(workshop.validation.references) == samples


def test_random_views_need_images(painted: Path, tmp_path: Path) -> None:
    recipe = _recipe(painted, tmp_path / "run", Path("unused"))
    with pytest.raises(InputError, match="features do not come from images"):
        train_captioner(replace(recipe, examples=ExamplesConfig(augment=True)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"feature_dropout": 1.0, "views": "random"}, "feature_dropout is 1.0"),
        ({"feature_dropout": 0.1}, "needs examples.augment=true"),
        ({"features": "a", "vision": "b"}, "both say where features come from"),
        ({"human_oversampling": 0}, "human_oversampling is 0"),
    ],
    ids=["all dropped", "nothing drawn", "two sources", "no people"],
)
def test_settings_that_clash_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ExamplesConfig(**settings)
