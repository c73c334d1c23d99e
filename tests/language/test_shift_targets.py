import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.language.shift_targets import fill_regions, shift_targets


@pytest.mark.parametrize(
    ("region_of_word", "expected"),
    [
        pytest.param([], [], id="no words"),
        pytest.param([None, None], [], id="no chunk"),
        pytest.param([0, 0, None, 1], [1], id="a word between two chunks"),
        pytest.param([None, 0, None], [], id="one chunk, no shift"),
        pytest.param([0, 1, 2], [0, 1], id="adjacent chunks"),
        pytest.param(
            [0, 0, None, 1, None, None, 2, 2, None, 3, 3], [1, 3, 7], id="a woman in sunglasses riding a horse"
        ),
    ],
)
def test_shifts_after_the_last_word_of_each_chunk_but_the_last(region_of_word, expected):
    assert [index for index, shift in enumerate(shift_targets(region_of_word)) if shift] == expected


def captions():
    """Region labels of chunks in order, with other words before, between and after them."""
    return st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=5).flatmap(
        lambda chunks: st.integers(0, 2).map(
            lambda tail: (
                [label for number, (gap, length) in enumerate(chunks) for label in [None] * gap + [number] * length]
                + [None] * tail
            )
        )
    )


@given(captions())
def test_following_the_shifts_visits_every_region_in_order(region_of_word):
    pointer, visited = 0, []
    for shift in shift_targets(region_of_word):
        visited.append(pointer)
        pointer += shift
    regions = [region for region in region_of_word if region is not None]
    expected = fill_regions(region_of_word)
    assert visited == expected if regions else set(visited) <= {0}
