import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.language.shift_targets import fill_regions, shift_targets


@pytest.mark.parametrize(
    ("region_of_word", "moves_after"),
    [
        pytest.param([], [], id="no words"),
        pytest.param([None, None], [], id="nothing to point at"),
        pytest.param([0, 0, None, 1], [1], id="a gap word leads up to the next region"),
        pytest.param([None, 0, None], [], id="one region needs no move"),
        pytest.param([0, 1, 2], [0, 1], id="chunks side by side"),
        pytest.param(
            [0, 0, None, 1, None, None, 2, 2, None, 3, 3], [1, 3, 7], id="a woman in sunglasses riding a horse"
        ),
    ],
)
def test_moves_on_at_the_end_of_each_chunk(region_of_word, moves_after):
    flags = shift_targets(region_of_word)
    assert [i for i, move in enumerate(flags) if move] == moves_after


def captions():
    """Chunks in order with gaps before, between and after them."""
    return st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=5).flatmap(
        lambda chunks: st.integers(0, 2).map(
            lambda tail: (
                [label for number, (gap, length) in enumerate(chunks) for label in [None] * gap + [number] * length]
                + [None] * tail
            )
        )
    )


@given(captions())
def test_following_the_moves_visits_every_region_in_order(region_of_word):
    pointer, visited = 0, []
    for move in shift_targets(region_of_word):
        visited.append(pointer)
        pointer += move
    regions = [region for region in region_of_word if region is not None]
    expected = fill_regions(region_of_word)
    assert visited == expected if regions else set(visited) <= {0}
