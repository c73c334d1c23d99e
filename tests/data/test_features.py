"""Features of a dataset's regions: from a store, from class and box, and cached."""

import numpy as np
import pytest
import torch

from sct.data.features import CachedFeatures, LayoutFeatures, StoreFeatures, image_descriptors, make_features
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
            regions=tuple(Region(Box(index, 5, index + 20, 25), ("cat", None)[index % 2]) for index in range(count)),
            captions=(),
        )
        for name, count in COUNTS.items()
    ])  # fmt: skip


def make_store(folder, counts):
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


def test_store_features_of_selected_images(tmp_path, table):
    store = make_store(tmp_path / "store", COUNTS)
    found = StoreFeatures(store, table)([2, 1, 0])
    assert found.first_row.tolist() == [0, 3, 3]
    torch.testing.assert_close(found.regions[3:], torch.from_numpy(store.image("a").features.astype(np.float32)))
    # Image c has rows (2, 3, 4, 5), zeros, and (10, 11, 12, 13).
    torch.testing.assert_close(found.image[0], torch.tensor([12.0, 14, 16, 18]) / 3)
    assert found.image[1].tolist() == [0] * SIZE
    nonzero = StoreFeatures(store, table, skip_zeros=True)([2])
    torch.testing.assert_close(nonzero.image[0], torch.tensor([12.0, 14, 16, 18]) / 2)


def test_a_store_with_other_regions_is_an_error(tmp_path, table):
    store = make_store(tmp_path / "store", COUNTS | {"c": 1})
    with pytest.raises(InputError, match=r"'c' has 3 regions in the dataset and 1 in .*: expected the store"):
        StoreFeatures(store, table)([0, 2])


def test_layout_features_of_class_and_box(table):
    encoder = LayoutEncoder(("dog", "cat"), SIZE)
    found = LayoutFeatures(encoder, table)([2, 0])
    assert found.first_row.tolist() == [0, 3]
    # Relative to an image of 100 x 50; cat is class 1 of the encoder, -1 means no class.
    boxes = torch.tensor([[0, 0.1, 0.2, 0.5], [0.01, 0.1, 0.21, 0.5]])
    expected = encoder(torch.tensor([1, -1]), boxes)
    torch.testing.assert_close(found.regions[3:], expected)
    torch.testing.assert_close(found.image[1], expected.mean(dim=0))
    assert LayoutFeatures(encoder, table)([1]).regions.shape == (0, SIZE)


def test_a_class_unknown_to_the_encoder_is_an_error(table):
    with pytest.raises(InputError, match="such as 'cat'"):
        LayoutFeatures(LayoutEncoder(("dog",), SIZE), table)


def test_a_store_takes_precedence_and_one_source_is_required(tmp_path, table):
    encoder = LayoutEncoder(("cat",), SIZE)
    assert isinstance(make_features(table, None, encoder), LayoutFeatures)
    assert isinstance(make_features(table, make_store(tmp_path / "store", COUNTS), encoder), StoreFeatures)
    with pytest.raises(InputError, match="no layout encoder and no features were given"):
        make_features(table, None, None)


def test_image_descriptors_are_masked_means():
    regions = torch.tensor([[1.0, 10.0], [2.0, 20.0], [6.0, 60.0], [0.0, 0.0], [2.0, 4.0]])
    mask = torch.tensor([True, True, False, True, True])
    found = image_descriptors(regions, np.array([0, 2, 2, 3, 5]), mask)
    # Two regions; no region; one masked region; one of zeros, which the authors' code would treat as padding.
    assert found.tolist() == [[1.5, 15.0], [0.0, 0.0], [0.0, 0.0], [1.0, 2.0]]


def test_cached_features_of_some_images(table):
    features = LayoutFeatures(LayoutEncoder(("cat",), SIZE), table)
    cached, expected = CachedFeatures(features([2, 0]), [2, 0])([0]), features([0])
    first = int(cached.first_row[0])
    torch.testing.assert_close(cached.regions[first : first + COUNTS["a"]], expected.regions)
    torch.testing.assert_close(cached.image, expected.image)


def test_cached_features_from_regions():
    regions = [
        [Region(Box(0, 0, 1, 1), feature=np.full(SIZE, float(value))) for value in image] for image in ([1, 2], [3])
    ]
    found = CachedFeatures.from_regions(regions, [np.full(SIZE, 5.0), np.full(SIZE, 6.0)])([1, 0])
    assert found.first_row.tolist() == [2, 0]
    assert found.regions[:, 0].tolist() == [1, 2, 3]
    assert found.image[:, 0].tolist() == [6, 5]
