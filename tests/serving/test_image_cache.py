"""A memory of images that stays within its bytes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sct.regions.images import LoadedImage
from sct.serving.glances import Glance
from sct.serving.image_cache import Memory


class Weight(Glance):
    def __init__(self, name: str, num_bytes: int) -> None:
        super().__init__(LoadedImage(np.zeros((1, 1, 3), np.uint8), 1, 1, name))
        self._num_bytes = num_bytes

    def sight(self, boxes):  # noqa: ARG002
        raise AssertionError

    @property
    def num_bytes(self) -> int:
        return self._num_bytes


def test_nothing_is_known_at_first():
    memory = Memory(100)
    assert memory.get("a") is None
    assert (len(memory), memory.num_bytes) == (0, 0)


def test_the_one_asked_for_longest_ago_goes_first():
    memory = Memory(100)
    for name in "abc":
        memory.keep(Weight(name, 30))
    assert memory.get("a") is not None
    memory.keep(Weight("d", 30))
    assert memory.get("b") is None
    assert [name for name in "abcd" if memory.get(name)] == ["a", "c", "d"]
    assert memory.num_bytes == 90


def test_a_image_that_comes_again_counts_once():
    memory = Memory(100)
    memory.keep(Weight("a", 60))
    memory.keep(Weight("a", 50))
    assert (len(memory), memory.num_bytes) == (1, 50)


def test_what_does_not_fit_alone_is_not_kept():
    memory = Memory(100)
    memory.keep(Weight("a", 60))
    memory.keep(Weight("b", 101))
    assert memory.get("a") is not None
    assert memory.get("b") is None
    assert Memory(0).get("a") is None


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 70))))
def test_it_never_takes_more(kept):
    memory = Memory(100)
    for name, size in kept:
        memory.keep(Weight(name, size))
        assert memory.num_bytes <= 100
        assert memory.get(name).num_bytes == size
    assert memory.num_bytes == sum(found.num_bytes for name in "abcdef" if (found := memory.get(name)))
