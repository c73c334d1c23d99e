"""Candidate orders of region sets."""

from math import perm

import pytest

from sct.captioner.ordering import MAX_ORDERED_SETS, candidate_orders


def make_sets(count):
    return tuple((index,) for index in range(count))


@pytest.mark.parametrize(
    ("num_sets", "max_orders", "expected"),
    [
        pytest.param(1, 9, 1, id="one set"),
        pytest.param(3, 15, 3 + 6 + 6, id="all"),
        pytest.param(3, 14, 14, id="one fewer than all"),
        pytest.param(3, 100, 15, id="fewer than requested"),
        pytest.param(10, 100, 100, id="sampled"),
        pytest.param(60, 100, 100, id="more sets than an order holds"),
    ],
)
def test_orders_are_distinct_and_bounded(num_sets, max_orders, expected):
    found = candidate_orders(make_sets(num_sets), max_orders, "image")
    assert len(found) == len(set(found)) == expected
    assert found == candidate_orders(make_sets(num_sets), max_orders, "image"), "seeded"
    for order in found:
        assert len(set(order)) == len(order) <= MAX_ORDERED_SETS
        assert set(order) <= set(make_sets(num_sets))


@pytest.mark.parametrize("max_orders", [10**6, 100, 30, 5])
def test_equal_sets_give_no_duplicate_orders(max_orders):
    found = candidate_orders(((0,), (0,), (1,), (2,)), max_orders, "image")
    assert len(found) == len(set(found)) <= max_orders
    # Of one set: 3; of two: 6 of different sets and 1 of equal ones; of three: 12; of four: 12.
    assert len(found) == min(max_orders, 3 + 7 + 12 + 12)


def test_few_orders_of_nearly_equal_sets():
    found = candidate_orders(((0,),) * 9 + ((1,),), 100, "image")
    assert 10 <= len(found) == len(set(found)) <= 100


def test_each_size_gets_an_equal_share():
    lengths = [len(order) for order in candidate_orders(make_sets(10), 100, "image")]
    assert {lengths.count(length) for length in range(1, 11)} == {10}
    # The 4 orders of one set leave a part of their share of 10 to larger sizes.
    lengths = [len(order) for order in candidate_orders(make_sets(4), 40, "image")]
    assert [lengths.count(length) for length in range(1, 5)] == [4, 12, 12, 12]
    assert perm(4, 3) > 12
