"""The LRU cache of encoded images."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sct.regions.images import LoadedImage
from sct.serving.image_cache import ImageCache
from sct.vision.interface import EncodedImage


class SizedImage(EncodedImage):
    def __init__(self, name: str, num_bytes: int) -> None:
        super().__init__(LoadedImage(np.zeros((1, 1, 3), np.uint8), 1, 1, name), np.zeros(1, np.float32), ())
        self._num_bytes = num_bytes

    def regions(self, boxes):  # noqa: ARG002
        raise AssertionError

    @property
    def num_bytes(self) -> int:
        return self._num_bytes


def test_empty_cache():
    cache = ImageCache(100)
    assert cache.get("a") is None
    assert (len(cache), cache.num_bytes) == (0, 0)


def test_least_recently_used_image_is_evicted():
    cache = ImageCache(100)
    for name in "abc":
        cache.add(SizedImage(name, 30))
    assert cache.get("a") is not None
    cache.add(SizedImage("d", 30))
    assert cache.get("b") is None
    assert [name for name in "abcd" if cache.get(name)] == ["a", "c", "d"]
    assert cache.num_bytes == 90


def test_adding_an_image_again_replaces_it():
    cache = ImageCache(100)
    cache.add(SizedImage("a", 60))
    cache.add(SizedImage("a", 50))
    assert (len(cache), cache.num_bytes) == (1, 50)


def test_an_image_larger_than_the_cache_is_not_cached():
    cache = ImageCache(100)
    cache.add(SizedImage("a", 60))
    cache.add(SizedImage("b", 101))
    assert cache.get("a") is not None
    assert cache.get("b") is None
    assert ImageCache(0).get("a") is None


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 70))))
def test_size_stays_within_the_limit(added):
    cache = ImageCache(100)
    for name, size in added:
        cache.add(SizedImage(name, size))
        assert cache.num_bytes <= 100
        assert cache.get(name).num_bytes == size
    assert cache.num_bytes == sum(image.num_bytes for name in "abcdef" if (image := cache.get(name)))
