"""Features of a dataset's regions, from a store and from class and box."""

import numpy as np
import pytest
import torch

from sct.data.features import LayoutFeatures, StoreFeatures, image_descriptors, make_features
from sct.data.records import AnnotatedImage
from sct.data.table import build_table
from sct.errors import InputError
from sct.regions import Box, Region, RegionStore, RegionStoreWriter
from sct.vision.layout import LayoutEncoder

COUNTS = {"a": 2, "b": 0, "c": 3}
SIZE = 4


@pytest.fixture
def table():
    return build_table([
        AnnotatedImage(
            image_id=name,
            split="val",
            width=100,
            height=50,
            regions=tuple(Region(Box(place, 5, place + 20, 25), ("cat", None)[place % 2]) for place in range(count)),
            captions=(),
        )
        for name, count in COUNTS.items()
    ])  # fmt: skip


def store_of(folder, counts):
    with RegionStoreWriter(folder, feature_size=SIZE, class_names=("cat",)) as writer:
        for number, (name, count) in enumerate(counts.items()):
            features = np.arange(count * SIZE, dtype=np.float32).reshape(count, SIZE) + number
            features[1:2] = 0
            boxes = np.tile(np.array([[0, 0, 9, 9]], np.float32), (count, 1))
            writer.append(
                name,
                features=features,
                boxes=boxes,
                classes=np.zeros(count, np.int64),
                scores=np.ones(count, np.float32),
                width=10,
                height=10,
            )
        writer.finish()
    return RegionStore.open(folder)


def test_a_store_gives_rows_and_means_of_the_images_asked_for(tmp_path, table):
    store = store_of(tmp_path / "store", COUNTS)
    found = StoreFeatures(store, table)([2, 1, 0])
    assert found.first_row.tolist() == [0, 3, 3]
    torch.testing.assert_close(found.regions[3:], torch.from_numpy(store.image("a").features.astype(np.float32)))
    # Image c: rows of 2, 3, 4, 5 and of 10, 11, 12, 13 with zeros between them.
    torch.testing.assert_close(found.image[0], torch.tensor([12.0, 14, 16, 18]) / 3)
    assert found.image[1].tolist() == [0] * SIZE
    without = StoreFeatures(store, table, skip_zeros=True)([2])
    torch.testing.assert_close(without.image[0], torch.tensor([12.0, 14, 16, 18]) / 2)


def test_a_store_of_other_regions_is_refused(tmp_path, table):
    store = store_of(tmp_path / "store", COUNTS | {"c": 1})
    with pytest.raises(InputError, match=r"'c' has 3 regions in the dataset and 1 in .*: expected the store"):
        StoreFeatures(store, table)([0, 2])


def test_class_and_box_tell_features(table):
    encoder = LayoutEncoder(("dog", "cat"), SIZE)
    found = LayoutFeatures(encoder, table)([2, 0])
    assert found.first_row.tolist() == [0, 3]
    # Relative to an image of 100 x 50; cat is the encoder's class 1, -1 stands for none.
    boxes = torch.tensor([[0, 0.1, 0.2, 0.5], [0.01, 0.1, 0.21, 0.5]])
    expected = encoder(torch.tensor([1, -1]), boxes)
    torch.testing.assert_close(found.regions[3:], expected)
    torch.testing.assert_close(found.image[1], expected.mean(dim=0))
    assert LayoutFeatures(encoder, table)([1]).regions.shape == (0, SIZE)


def test_a_class_that_the_encoder_does_not_know_is_refused(table):
    with pytest.raises(InputError, match="'cat' is unknown"):
        LayoutFeatures(LayoutEncoder(("dog",), SIZE), table)


def test_a_store_comes_first_and_nothing_at_all_is_refused(tmp_path, table):
    encoder = LayoutEncoder(("cat",), SIZE)
    assert isinstance(make_features(table, None, encoder), LayoutFeatures)
    assert isinstance(make_features(table, store_of(tmp_path / "store", COUNTS), encoder), StoreFeatures)
    with pytest.raises(InputError, match="no encoder of regions, and no features were given"):
        make_features(table, None, None)


def test_descriptors_are_means_of_what_counts():
    regions = torch.tensor([[1.0, 10.0], [2.0, 20.0], [6.0, 60.0], [0.0, 0.0], [2.0, 4.0]])
    counted = torch.tensor([True, True, False, True, True])
    found = image_descriptors(regions, np.array([0, 2, 2, 3, 5]), counted)
    # Two regions; no region; one that does not count; one of zeros, which the authors' code would take for padding.
    assert found.tolist() == [[1.5, 15.0], [0.0, 0.0], [0.0, 0.0], [1.0, 2.0]]
