from dataclasses import replace

import numpy as np
import pytest

from sct.data.dataset import Dataset
from sct.errors import InputError
from sct.training.pixel_table import load_pixel_table
from tests.factories import make_noun_dataset
from tests.storage.test_tar import write_tar


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    root = tmp_path_factory.mktemp("pixels")
    return Dataset.open(make_noun_dataset(root / "data", image_folder=root / "images"))


def test_folders_and_shards_give_the_same_pixels(dataset, tmp_path):
    """Twelve images in three shards, in a folder of each."""
    source = dataset.open_images()
    for part in range(3):
        names = source.names[part::3]
        write_tar(tmp_path / f"{part}.tar", {f"images/{name}": source.read(name) for name in names})
    pixels = load_pixel_table(dataset, [], 14)
    assert pixels.shape == (12, 3, 14, 14)
    assert np.array_equal(pixels[3, :, 5, 5], [60, 100, 190])
    assert np.array_equal(load_pixel_table(dataset, [str(tmp_path)], 14), pixels)


def test_missing_images(dataset, tmp_path):
    with pytest.raises(InputError, match=r"images of the dataset are missing \(nowhere does not exist.* images=PATH"):
        load_pixel_table(dataset, ["nowhere"], 14)
    with pytest.raises(InputError, match=r"image '\d+\.png' is not in"):
        load_pixel_table(dataset, [str(tmp_path)], 14)
    without = replace(dataset, table=replace(dataset.table, image_files=("",) * 12))
    with pytest.raises(InputError, match="image '0' has no file: expected a dataset that was prepared with its images"):
        load_pixel_table(without, [], 14)
