from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from sct.data.dataset import Dataset
from sct.data.records import AnnotatedImage
from sct.errors import InputError
from sct.training.metric_logger import read_metrics
from sct.training.run_dir import RunDir
from sct.training.vision.augment import augment, no_augmentation
from sct.training.vision.config import VisionRecipe
from sct.training.vision.trainer import train_vision
from sct.vision.encoder import load_vision
from tests.factories import make_dataset, make_painted_dataset, make_vision_encoder

RECIPES = Path(__file__).parents[3] / "recipes" / "vision"


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_painted_dataset(tmp_path_factory.mktemp("painted"))


def _recipe(data: Path, out: Path, **changes) -> VisionRecipe:
    settings = {
        "image_size": 84, "width": 48, "heads": 2, "depth": 2, "feature_size": 32, "map_scale": 1, "roi_size": 3,
        "epochs": 30, "batch_size": 10,
        "min_class_count": 1, "min_noun_count": 1, "min_word_count": 1, "validate_every": 30, "learning_rate": 4e-3,
        "backbone_learning_rate": 4e-3, "layer_decay": 1.0, "drop_path": 0.0, "device": "cpu",
    }  # fmt: skip
    return VisionRecipe(data=str(data), out=str(out), **(settings | changes))


def test_learns_to_classify_and_detect_unseen_images(painted: Path, tmp_path: Path) -> None:
    report = train_vision(_recipe(painted, tmp_path / "run"))
    assert report.val is not None
    assert report.val["class_accuracy"] > 0.9  # chance level 0.5
    assert report.val["proposal_recall_10"] > 0.8
    kinds = [line["kind"] for line in read_metrics(tmp_path / "run")]
    assert {"train", "validation"} == set(kinds)
    encoder = load_vision(tmp_path / "run" / "vision.safetensors")
    dataset = Dataset.open(painted)
    image = next(image for image in dataset if image.split == "val")
    [encoded] = encoder.encode([dataset.load_image(image)])
    regions = encoded.regions([region.box for region in image.regions])
    assert [region.class_name for region in regions] == [region.class_name for region in image.regions]


def test_starts_from_another_encoder(painted: Path, tmp_path: Path) -> None:
    train_vision(_recipe(painted, tmp_path / "first", epochs=1))
    first = tmp_path / "first" / "vision.safetensors"
    train_vision(_recipe(painted, tmp_path / "second", init_from=str(first), epochs=1, learning_rate=1e-9,
                         backbone_learning_rate=1e-9, image_size=98))  # fmt: skip
    before, after = load_vision(first), load_vision(tmp_path / "second" / "vision.safetensors")
    assert (before.image_size, after.image_size) == (84, 98)
    assert torch.allclose(before.network.class_head.weight, after.network.class_head.weight, atol=1e-3)
    with pytest.raises(InputError, match="expected the 2 of the dataset: train on the same data"):
        train_vision(_recipe(painted, tmp_path / "third", init_from=str(_encoder_of_other_names(tmp_path))))


def _encoder_of_other_names(folder: Path) -> Path:
    make_vision_encoder().save(folder / "other.safetensors")
    return folder / "other.safetensors"


def test_rejects_a_directory_with_a_run(painted: Path, tmp_path: Path) -> None:
    train_vision(_recipe(painted, tmp_path, epochs=1))
    with pytest.raises(InputError, match="holds a run already"):
        train_vision(_recipe(painted, tmp_path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": "nowhere"}, "images of the dataset are missing .nowhere does not exist"),
        ({"backbone": "nowhere.safetensors"}, "does not exist"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"heads": 0}, "got heads 0"),
        ({"heads": 5}, "width is 48 and heads is 5"),
        ({"image_size": 28}, "got image_size 28, expected an integer from 42"),
        ({"weight_decay": -1.0}, "weight_decay is -1.0"),
        ({"unsure_negative_weight": -0.1}, "unsure_negative_weight is -0.1"),
        ({"min_class_count": 1000, "min_noun_count": 1000}, "lower min_class_count"),
        ({"backbone": "a.safetensors", "init_from": "b.safetensors"}, "got from and backbone, expected one"),
    ],
    ids=[
        "images",
        "backbone",
        "learning rate",
        "no heads",
        "heads",
        "image size",
        "decay",
        "unsure negatives",
        "no classes",
        "clash",
    ],
)
def test_rejects_bad_settings(painted: Path, tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        train_vision(_recipe(painted, tmp_path, **changes))
    RunDir.create(tmp_path, _recipe(painted, tmp_path)).close()  # a corrected recipe may use the directory


def test_rejects_a_dataset_without_regions(tmp_path: Path) -> None:
    image = AnnotatedImage(image_id="1", split="train", width=9, height=9, regions=(), captions=())
    data = make_dataset(tmp_path / "data", [image])
    with pytest.raises(InputError, match="has no training image with regions"):
        train_vision(_recipe(data, tmp_path / "run"))


def test_rejects_a_backbone_of_another_size(painted: Path, tmp_path: Path) -> None:
    save_file({"class_token": torch.zeros(3)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="lacks blocks"):
        train_vision(_recipe(painted, tmp_path / "run", backbone=str(tmp_path / "other.safetensors")))


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_recipe_file_loads(path: Path) -> None:
    assert VisionRecipe.load(path).task == "vision"
    with pytest.raises(InputError, match="device is 'tpu': expected 'auto', 'cpu' or 'cuda'"):
        VisionRecipe.load(path, ["device=tpu"])


def _squares(count: int = 64) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Black images with one white box."""
    boxes = torch.tensor([[[0.25, 0.5, 0.5, 0.75]]]).repeat(count, 1, 1)
    pixels = torch.zeros(count, 3, 64, 64, dtype=torch.uint8)
    pixels[:, :, 32:48, 16:32] = 255
    return pixels, boxes, torch.ones(count, 1, dtype=torch.bool)


def test_augment_moves_boxes_with_pixels() -> None:
    torch.manual_seed(1)
    pixels, boxes, is_region = _squares()
    batch = augment(pixels, boxes, is_region)
    assert batch.visible.any()
    for image, box, visible in zip(batch.pixels, batch.boxes[:, 0], batch.visible[:, 0], strict=True):
        if not visible:
            continue
        bright = image.mean(0)
        bright = bright > (bright.min() + bright.max()) / 2
        columns, rows = np.flatnonzero(bright.any(0)), np.flatnonzero(bright.any(1))
        found = torch.tensor([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]) / 64
        torch.testing.assert_close(found.float(), box, atol=0.035, rtol=0)


def test_augment_flips_only_images_that_may_be_flipped() -> None:
    torch.manual_seed(1)
    pixels, boxes, is_region = _squares()
    assert set(augment(pixels, boxes, is_region, crop=False).boxes[:, 0, 0].tolist()) == {0.25, 0.5}
    assert set(
        augment(pixels, boxes, is_region, crop=False, may_flip=torch.zeros(len(pixels), dtype=torch.bool))
        .boxes[:, 0, 0]
        .tolist()
    ) == {0.25}


def test_no_augmentation_changes_nothing() -> None:
    pixels, boxes, is_region = _squares(2)
    batch = no_augmentation(pixels, boxes, is_region)
    assert torch.equal(batch.boxes, boxes)
    assert len(batch.pixels.unique()) == 6  # black and white, each in three channels
