import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sct.data.dataset import Dataset
from sct.errors import InputError
from sct.language.noun_table import NounTable
from sct.regions.images import LoadedImage
from sct.regions.records import Box
from sct.training.vision.class_embeddings import append_class_embeddings, class_name_embeddings, require_nouns
from sct.training.vision.config import VisionRecipe
from sct.training.vision.trainer import train_vision
from sct.vision.encoder import RegionVisionEncoder, load_vision
from tests.factories import make_painted_dataset, make_region_network

NOUNS = NounTable.from_vectors(
    ("dog", "goggles", "sunglasses", "truck", "ufo"),
    np.array([[2.0, 0.0], [3.0, 4.0], [0.0, -1.0], [0.0, 5.0], [0.0, 0.0]]),
    "two numbers",
)


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_painted_dataset(tmp_path_factory.mktemp("painted"), num_images=8)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        pytest.param("", [0.0, 0.0], id="empty"),
        pytest.param("runs", [0.0, 0.0], id="not a noun"),
        pytest.param("ufo", [0.0, 0.0], id="zero vector"),
        pytest.param("truck", [0.0, 1.0], id="noun"),
        pytest.param("goggle", [0.6, 0.8], id="plural only"),
        pytest.param("sunglass", [0.0, -1.0], id="plural in -es"),
        pytest.param("dog truck", [math.sqrt(0.5), math.sqrt(0.5)], id="mean of two words"),
        pytest.param("hot dog", [1.0, 0.0], id="one of two words known"),
    ],
)
def test_class_name_embeddings(name: str, unit: list[float]) -> None:
    embeddings = class_name_embeddings(["dog", name], NOUNS)
    torch.testing.assert_close(embeddings, torch.tensor([[1.0, 0.0], unit]) * math.sqrt(2))


def test_rejects_class_names_without_vectors() -> None:
    with pytest.raises(InputError, match="none of the 2 class names has a vector in a table of 5 nouns"):
        class_name_embeddings(["ufo", "runs"], NOUNS)


def test_rejects_a_dataset_without_a_noun_table(painted: Path) -> None:
    with pytest.raises(InputError, match="has no noun table"):
        require_nouns(replace(Dataset.open(painted), nouns=None), "somewhere")


def _encoder() -> RegionVisionEncoder:
    return RegionVisionEncoder(make_region_network(), ("dog", "truck", "ufo"), num_proposals=7)


def test_append_class_embeddings_keeps_everything_else(tmp_path: Path) -> None:
    plain, extended = _encoder(), append_class_embeddings(_encoder(), NOUNS)
    assert (extended.feature_size, extended.class_names, extended.num_proposals) == (18, plain.class_names, 7)
    pixels = np.random.default_rng(1).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    image, boxes = LoadedImage(pixels, 90, 60, "noise"), [Box(0, 0, 40, 40)]
    [before], [after] = (encoder.encode([image]) for encoder in (plain, extended))
    regions = [(*encoded.regions(boxes), *encoded.proposals) for encoded in (before, after)]
    for one, other in zip(*regions, strict=True):
        assert (other.box, other.class_name, other.score) == (one.box, one.class_name, one.score)
        assert np.array_equal(other.feature[:16], one.feature)
    # The embeddings of dog and truck are orthogonal and that of ufo is 0, so each value is a class probability.
    probability = regions[1][0].feature[16:] / math.sqrt(2)
    assert (probability > 0).all()
    assert 0 < sum(probability) < 1
    extended.save(tmp_path / "vision.safetensors")
    loaded = load_vision(tmp_path / "vision.safetensors")
    assert loaded.feature_size == 18
    [again] = loaded.encode([image])
    np.testing.assert_allclose(again.image_feature[16:], after.image_feature[16:], atol=0.01)


def test_class_embeddings_can_be_replaced() -> None:
    replaced = append_class_embeddings(
        append_class_embeddings(_encoder(), NOUNS), NounTable.from_vectors(("dog",), np.eye(1, 3), "three")
    )
    torch.testing.assert_close(
        replaced.network.class_embeddings, torch.tensor([[1.0, 0.0, 0.0], [0.0] * 3, [0.0] * 3]) * math.sqrt(3)
    )


@pytest.mark.parametrize(("append", "size"), [(False, 16), (True, 20)], ids=["plain", "appended"])
def test_recipe_appends_class_embeddings(painted: Path, tmp_path: Path, append: bool, size: int) -> None:
    recipe = VisionRecipe(
        data=str(painted), out=str(tmp_path), image_size=84, width=24, heads=2, depth=1, feature_size=16, epochs=1,
        batch_size=2, min_class_count=1, min_word_count=1, device="cpu", append_class_embeddings=append,
    )  # fmt: skip
    train_vision(recipe)
    encoder = load_vision(tmp_path / "vision.safetensors")
    assert encoder.feature_size == size
    if append:
        expected = class_name_embeddings(encoder.class_names, require_nouns(Dataset.open(painted), ""))
        torch.testing.assert_close(encoder.network.class_embeddings, expected, atol=1e-3, rtol=0)
