import numpy as np
import pytest

from sct.regions.image_source import ImageSource
from sct.vision.image_loader import load_batches
from tests.factories import make_image_files


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = make_image_files(tmp_path_factory.mktemp("loader") / "images")
    (folder / "bad.png").write_bytes(b"no image")
    return ImageSource.open(folder)


@pytest.mark.parametrize("in_processes", [False, True], ids=["thread", "processes"])
@pytest.mark.parametrize("batch_size", [2, 100])
def test_images_in_their_order_and_unreadable_ones_reported(source, batch_size, in_processes, monkeypatch):
    monkeypatch.setattr("sct.vision.image_loader.count_cpus", lambda: 1)
    names, errors = ["b.png", "bad.png", "a.png", "c.png", "a.png"], []
    batches = list(load_batches(source, names, 14, batch_size, in_processes=in_processes, on_error=errors.append))
    assert [name for batch in batches for name in batch.names] == ["b.png", "a.png", "c.png", "a.png"]
    assert all(len(batch.names) <= batch_size for batch in batches)
    [error] = errors
    assert "bad.png is not a known image format" in str(error)
    pixels = np.concatenate([batch.pixels for batch in batches])
    assert pixels.shape == (4, 3, 14, 14)
    assert np.array_equal(pixels[1], pixels[3])
    assert np.concatenate([batch.sizes for batch in batches])[1].tolist() == [40, 20]


def test_no_readable_image(source):
    assert list(load_batches(source, ["bad.png"], 14, 2, in_processes=False, on_error=lambda _: None)) == []
