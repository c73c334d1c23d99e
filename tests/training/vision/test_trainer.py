from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from sct.data.dataset import Dataset
from sct.errors import InputError
from sct.regions.images import load_image
from sct.training.metric_logger import read_metrics
from sct.training.vision.augment import augment, no_augmentation
from sct.training.vision.config import VisionRecipe
from sct.training.vision.targets import build_targets
from sct.training.vision.trainer import train_vision
from sct.vision.encoder import load_vision
from tests.factories import make_painted_dataset


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_painted_dataset(tmp_path_factory.mktemp("painted"))


def _recipe(data: Path, out: Path, **changes) -> VisionRecipe:
    settings = {
        "side": 84, "width": 48, "heads": 2, "depth": 2, "feature_size": 32, "epochs": 40, "batch_size": 10,
        "min_class_count": 1, "min_word_count": 1, "validate_every": 40, "learning_rate": 4e-3,
        "backbone_learning_rate": 4e-3, "layer_decay": 1.0, "drop_path": 0.0, "device": "cpu",
    }  # fmt: skip
    return VisionRecipe(data=str(data), out=str(out), **(settings | changes))


def test_targets_say_what_people_said(painted: Path) -> None:
    targets = build_targets(Dataset.open(painted).table, min_class_count=1, min_word_count=1)
    assert set(targets.names) == {"ball", "box"}
    assert set(targets.words) == {"ball", "box"}  # "a" and "near" say nothing of looks
    assert targets.is_region.sum(1).tolist() == [2] * 40
    assert (targets.region_names.sum(1) == 1).all()
    assert (targets.region_words.sum(1) == 1).all()
    assert (targets.boxes[targets.is_region] <= 1).all()


def test_it_learns_to_name_and_find_what_it_never_saw(painted: Path, tmp_path: Path) -> None:
    report = train_vision(_recipe(painted, tmp_path / "run"))
    assert report.val is not None
    assert report.val["right_names"] > 0.9  # by chance it is half
    assert report.val["found_10"] > 0.8
    kinds = [line["kind"] for line in read_metrics(tmp_path / "run")]
    assert {"train", "validation"} == set(kinds)
    eye = load_vision(tmp_path / "run" / "vision.safetensors")
    dataset = Dataset.open(painted)
    image = next(image for image in dataset if image.split == "val")
    [sight] = eye.look([load_image(dataset.image_path(image))], [[region.box for region in image.regions]])
    assert [region.class_name for region in sight.regions] == [region.class_name for region in image.regions]


def test_a_run_is_not_written_over(painted: Path, tmp_path: Path) -> None:
    train_vision(_recipe(painted, tmp_path, epochs=1))
    with pytest.raises(InputError, match="holds a run already"):
        train_vision(_recipe(painted, tmp_path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": "nowhere"}, "images of the dataset are not in 'nowhere'"),
        ({"backbone": "nowhere.safetensors"}, "does not exist"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"device": "tpu"}, "device is 'tpu'"),
        ({"heads": 0}, "heads is 0"),
        ({"heads": 5}, "width is 48, for heads=5"),
        ({"side": 28}, "side is 28: expected 42 or more"),
        ({"weight_decay": -1.0}, "weight_decay is -1.0"),
        ({"min_class_count": 1000}, "lower min_class_count"),
    ],
    ids=["images", "backbone", "rate", "device", "no heads", "heads", "side", "decay", "no names"],
)
def test_bad_settings_are_refused(painted: Path, tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        train_vision(_recipe(painted, tmp_path, **changes))
    assert not (tmp_path / "recipe.toml").exists()  # so that it can be begun there once it is mended


def test_a_backbone_that_does_not_fit_is_refused(painted: Path, tmp_path: Path) -> None:
    save_file({"class_token": torch.zeros(3)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="does not fit the transformer"):
        train_vision(_recipe(painted, tmp_path / "run", backbone=str(tmp_path / "other.safetensors")))


def test_the_recipe_of_the_default_model_loads() -> None:
    recipe = VisionRecipe.load(Path(__file__).parents[3] / "recipes" / "vision" / "flickr8k.toml")
    assert recipe.task == "sight"


def _squares(count: int = 64) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Black images with a white box each."""
    boxes = torch.tensor([[[0.25, 0.5, 0.5, 0.75]]]).repeat(count, 1, 1)
    pixels = torch.zeros(count, 3, 64, 64, dtype=torch.uint8)
    pixels[:, :, 32:48, 16:32] = 255
    return pixels, boxes, torch.ones(count, 1, dtype=torch.bool)


def test_boxes_follow_what_is_done_to_the_image() -> None:
    torch.manual_seed(1)
    pixels, boxes, is_region = _squares()
    view = augment(pixels, boxes, is_region)
    assert view.is_seen.any()
    for image, box, is_seen in zip(view.pixels, view.boxes[:, 0], view.is_seen[:, 0], strict=True):
        if not is_seen:
            continue
        bright = image.mean(0)
        bright = bright > (bright.min() + bright.max()) / 2
        columns, rows = np.flatnonzero(bright.any(0)), np.flatnonzero(bright.any(1))
        found = torch.tensor([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]) / 64
        torch.testing.assert_close(found.float(), box, atol=0.035, rtol=0)


def test_some_are_mirrored_and_none_that_may_not_be() -> None:
    torch.manual_seed(1)
    pixels, boxes, is_region = _squares()
    assert set(augment(pixels, boxes, is_region, crop=False).boxes[:, 0, 0].tolist()) == {0.25, 0.5}
    assert set(
        augment(pixels, boxes, is_region, crop=False, may_flip=torch.zeros(len(pixels), dtype=torch.bool))
        .boxes[:, 0, 0]
        .tolist()
    ) == {0.25}


def test_a_plain_view_changes_nothing() -> None:
    pixels, boxes, is_region = _squares(2)
    view = no_augmentation(pixels, boxes, is_region)
    assert torch.equal(view.boxes, boxes)
    assert len(view.pixels.unique()) == 6  # black and white, each in three channels
