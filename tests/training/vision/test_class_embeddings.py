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
from sct.vision.region_network import RegionEncoder, RegionEncoderConfig
from sct.vision.vit import TransformerConfig
from tests.factories import make_painted_dataset

NOUNS = NounTable.from_vectors(
    ("dog", "goggles", "sunglasses", "truck", "ufo"),
    np.array([[2.0, 0.0], [3.0, 4.0], [0.0, -1.0], [0.0, 5.0], [0.0, 0.0]]),
    "two numbers",
)


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_painted_dataset(tmp_path_factory.mktemp("painted"), images=8)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        pytest.param("", [0.0, 0.0], id="empty"),
        pytest.param("runs", [0.0, 0.0], id="no noun"),
        pytest.param("ufo", [0.0, 0.0], id="a noun without a vector"),
        pytest.param("truck", [0.0, 1.0], id="a noun"),
        pytest.param("goggle", [0.6, 0.8], id="what is said in the plural alone"),
        pytest.param("sunglass", [0.0, -1.0], id="another plural"),
        pytest.param("dog truck", [math.sqrt(0.5), math.sqrt(0.5)], id="the mean of two words"),
        pytest.param("hot dog", [1.0, 0.0], id="a word of two is known"),
    ],
)
def test_names_have_the_vectors_of_their_words(name: str, unit: list[float]) -> None:
    found = class_name_embeddings(["dog", name], NOUNS)
    torch.testing.assert_close(found, torch.tensor([[1.0, 0.0], unit]) * math.sqrt(2))


def test_names_that_no_vector_is_known_of_are_refused() -> None:
    with pytest.raises(InputError, match="none of the 2 names has a vector among 5 nouns"):
        class_name_embeddings(["ufo", "runs"], NOUNS)


def test_a_dataset_without_a_noun_table_is_refused(painted: Path) -> None:
    with pytest.raises(InputError, match="has no noun table"):
        require_nouns(replace(Dataset.open(painted), nouns=None), "somewhere")


def _eye() -> RegionVisionEncoder:
    torch.manual_seed(1)
    transformer = TransformerConfig(width=24, heads=2, depth=1, grid=5)
    config = RegionEncoderConfig(num_classes=2, side=84, reduced=8, feature_size=16, transformer=transformer)
    return RegionVisionEncoder(RegionEncoder(config), ("dog", "truck"), proposals=7)


def test_an_eye_sees_as_before_and_tells_words_as_well(tmp_path: Path) -> None:
    plain, told = _eye(), append_class_embeddings(_eye(), NOUNS)
    assert (told.feature_size, told.names, told.num_proposals) == (18, plain.names, 7)
    pixels = np.random.default_rng(1).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    image, boxes = LoadedImage(pixels, 90, 60, "noise"), [Box(0, 0, 40, 40)]
    [before], [after] = (eye.look([image], [boxes]) for eye in (plain, told))
    for one, other in zip((*before.regions, *before.proposals), (*after.regions, *after.proposals), strict=True):
        assert (other.box, other.class_name, other.score) == (one.box, one.class_name, one.score)
        assert np.array_equal(other.feature[:16], one.feature)
    [region] = after.regions
    # The two names have vectors at right angles, so each number is the share of one name.
    assert max(region.feature[16:]) == pytest.approx(region.score * math.sqrt(2), rel=1e-5)
    assert sum(region.feature[16:]) == pytest.approx(math.sqrt(2), rel=1e-5)
    told.save(tmp_path / "vision.safetensors")
    loaded = load_vision(tmp_path / "vision.safetensors")
    assert loaded.feature_size == 18
    [again] = loaded.look([image], [boxes])
    np.testing.assert_allclose(again.descriptor[16:], after.descriptor[16:], atol=0.01)


def test_words_can_be_told_anew() -> None:
    told = append_class_embeddings(
        append_class_embeddings(_eye(), NOUNS), NounTable.from_vectors(("dog",), np.eye(1, 3), "three")
    )
    torch.testing.assert_close(
        told.network.class_name_embeddings, torch.tensor([[1.0, 0.0, 0.0], [0.0] * 3]) * math.sqrt(3)
    )


@pytest.mark.parametrize(("class_words", "size"), [(False, 16), (True, 18)], ids=["plain", "with class words"])
def test_a_run_writes_an_eye_with_class_words_if_asked(
    painted: Path, tmp_path: Path, class_words: bool, size: int
) -> None:
    recipe = VisionRecipe(
        data=str(painted), out=str(tmp_path), side=84, width=24, heads=2, depth=1, feature_size=16, epochs=1,
        batch_size=2, min_class_count=1, min_word_count=1, device="cpu", append_class_embeddings=class_words,
    )  # fmt: skip
    train_vision(recipe)
    eye = load_vision(tmp_path / "vision.safetensors")
    assert eye.feature_size == size
    if class_words:
        expected = class_name_embeddings(eye.names, NounTable.from_vectors(("ball", "box"), np.eye(2), "two numbers"))
        torch.testing.assert_close(eye.network.class_name_embeddings, expected, atol=1e-3, rtol=0)
