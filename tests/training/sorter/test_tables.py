"""Controls of a dataset's captions as sorter inputs."""

import numpy as np
import pytest
import torch

from sct.data.dataset import Dataset
from sct.data.features import ImageFeatures
from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.regions import Box, Region
from sct.sorting.batches import extract_caption_controls, table_from_dataset
from tests.factories import make_dataset, make_image

REGIONS = [Region(Box(1, 2, 3, 6), "dog"), Region(Box(0, 0, 10, 20)), Region(Box(5, 5, 6, 6), "traffic light", 0.5)]
VECTORS = WordVectors("two numbers", {"dog": 0, "traffic": 1, "light": 2}, np.array([[1, 0], [0, 1], [2, 1]], "f4"))


def dataset(tmp_path, *captions, split="train", image_ids=("1",)):
    images = [make_image(name, *captions, regions=REGIONS, split=split, size=(10, 20)) for name in image_ids]
    return Dataset.open(make_dataset(tmp_path / "data", images)).table


@pytest.mark.parametrize(
    ("captions", "split", "controls"),
    [
        pytest.param([], "train", [], id="no captions"),
        pytest.param([[[0]]], "train", [], id="single sets are skipped"),
        pytest.param([[[2], [0, 1]]], "train", [((2,), (0, 1))], id="order of mention"),
        pytest.param([[[2], [0], [2], [1]]], "train", [((2,), (0,), (1,))], id="first of two mentions"),
        pytest.param([[[2], [], [0]]], "train", [((2,), (0,))], id="training skips chunks without a region"),
        pytest.param([[[2], [], [0]]], "val", [], id="val skips their captions"),
        pytest.param([[[0], [1], [2], [0, 1]]], "train", [], id="too many sets"),
        pytest.param([[[0], [1]], [[1], [0]]], "val", [((0,), (1,)), ((1,), (0,))], id="all captions"),
    ],
)
def test_extract_caption_controls(captions, split, controls, tmp_path):
    extracted = extract_caption_controls(dataset(tmp_path, *captions, split=split), split, max_sets=3)
    assert list(extracted.controls) == controls
    assert len(extracted) == len(controls)


def test_rejects_an_unknown_split(tmp_path):
    with pytest.raises(InputError, match="no split 'test'"):
        extract_caption_controls(dataset(tmp_path, [[0], [1]]), "test")


def test_table_from_dataset(tmp_path):
    table = table_from_dataset(dataset(tmp_path, [[0], [1]]), [0, 0], [((2,), (0, 1)), ((1,),)], VECTORS)
    assert len(table) == 2
    inputs = table.batch(np.arange(2)).inputs
    names = [inputs.class_names[number] for number in inputs.region_class]
    assert names == ["dog", None, "traffic light"]
    assert inputs.class_vectors[inputs.region_class].tolist() == [[1, 0], [0, 0], [1, 1]]
    np.testing.assert_allclose(inputs.positions[0], [0.2, 0.2, 0.2, 0.2])  # (1 + 3) / 2 / 10, (2 + 6) / 2 / 20, ...
    assert inputs.set_rows[0].tolist() == [[2, 2], [0, 1]]
    assert inputs.set_mask[0].tolist() == [[True, False], [True, True]]
    assert inputs.scores is None, "not all regions have a score"


def test_table_from_dataset_selects_features(tmp_path):
    table = dataset(tmp_path, [[0], [1]], image_ids=("1", "2"))

    def features(images):
        assert list(images) == [1]
        return ImageFeatures(torch.arange(5.0)[:, None], np.array([2]), torch.zeros(1, 1))  # preceded by other rows

    control_table = table_from_dataset(table, [1], [((2,), (0,))], VECTORS, features=features)
    inputs = control_table.batch(np.arange(1)).inputs
    assert inputs.features[inputs.set_rows[0, :, 0], 0].tolist() == [4, 2]
