"""Order of region sets: sort unordered controls, restore the input order of captions, draw candidate orders."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import permutations
from math import perm
from random import Random
from typing import TypeVar

from sct.captioner.grounded_caption import GroundedCaption, RegionOrder
from sct.captioner.requests import RegionRequest
from sct.errors import InputError
from sct.regions.records import Control
from sct.sorting.sorter import ControlSorter

ORDERS_PER_CAPTION = 5
"""Candidate orders per caption that is kept."""
MAX_ORDERED_SETS = 10
"""Maximum region sets of a candidate order, as in the paper's sorter; more do not fit a caption of 20 words."""
_MAX_LISTED_RATIO = 4
"""Permutations are enumerated, rather than drawn, if there are at most this many times those requested."""
_DRAWS_PER_ORDER = 10
"""Draws per requested order; with many equal sets few orders differ."""

SetT = TypeVar("SetT", bound=Hashable)


def sort_requests(
    requests: Sequence[RegionRequest], sorter: ControlSorter | None
) -> tuple[list[RegionRequest], list[RegionOrder | None]]:
    """Order the unordered controls; returns the ordered requests and the order that was applied to each, if any."""
    orders = _choose_orders(requests, sorter)
    ordered = [
        request if order is None else replace(request, control=reorder(request.control, order.sets))
        for request, order in zip(requests, orders, strict=True)
    ]
    return ordered, orders


def reorder(control: Control, sets: Sequence[int]) -> Control:
    """The sequence of these region sets of a control."""
    return Control(tuple(control.region_sets[number] for number in sets), ordered=True)


def restore_input_order(caption: GroundedCaption, order: RegionOrder, control: Control) -> GroundedCaption:
    """Renumber the region sets of a caption of ``reorder(control, order.sets)`` as in ``control``."""
    words = tuple(replace(word, region_set=order.sets[word.region_set]) for word in caption.words)
    chunks = tuple(replace(chunk, region_set=order.sets[chunk.region_set]) for chunk in caption.chunks)
    return replace(caption, words=words, chunks=chunks, order=order, control=control)


def candidate_orders(sets: Sequence[SetT], max_orders: int, seed: object) -> list[tuple[SetT, ...]]:
    """Permutations of region sets and of their subsets, all if there are at most ``max_orders``.

    Otherwise each subset size gets an equal share of random ones; what a small size cannot use goes to the larger.

    >>> candidate_orders("ab", 9, seed="a.jpg")
    [('a',), ('b',), ('a', 'b'), ('b', 'a')]
    """
    generator = Random(f"{seed}")
    sizes = range(1, min(len(sets), MAX_ORDERED_SETS) + 1)
    orders: list[tuple[SetT, ...]] = []
    for size in sizes:
        share = -(-(max_orders - len(orders)) // (len(sizes) - size + 1))
        orders += draw_orders(sets, size, share, generator)
    return orders


def draw_orders(sets: Sequence[SetT], size: int, max_orders: int, generator: Random) -> list[tuple[SetT, ...]]:
    """Up to ``max_orders`` distinct permutations of ``size`` sets; equal sets count as the same."""
    if perm(len(sets), size) <= _MAX_LISTED_RATIO * max_orders:
        orders = list(dict.fromkeys(permutations(sets, size)))
        return orders if len(orders) <= max_orders else generator.sample(orders, max_orders)
    drawn: dict[tuple[SetT, ...], None] = {}
    for _ in range(_DRAWS_PER_ORDER * max_orders):
        if len(drawn) == max_orders:
            break
        drawn[tuple(generator.sample(sets, size))] = None
    return list(drawn)


def _choose_orders(requests: Sequence[RegionRequest], sorter: ControlSorter | None) -> list[RegionOrder | None]:
    """The sorter's order of each unordered control; a single set needs no sorter."""
    orders: list[RegionOrder | None] = [None] * len(requests)
    unsorted = []
    for row, request in enumerate(requests):
        if request.control.ordered:
            continue
        if len(request.control.region_sets) == 1:
            orders[row] = RegionOrder((0,), 1.0)
        else:
            unsorted.append(row)
    if not unsorted:
        return orders
    if sorter is None:
        raise InputError(
            "the control is a set, but the bundle has no sorter: give the regions in order, or use a bundle with a "
            "sorter (sct train recipes/sorter/*.toml from=BUNDLE makes one)"
        )
    sizes = [size for row in unsorted if (size := requests[row].image_size) is not None]
    if len(sizes) < len(unsorted):
        raise InputError(
            "the control is a set, but its image_size is missing: give image_size=(width, height), which the sorter "
            "needs"
        )
    found = sorter.orders([requests[row].control for row in unsorted], sizes)
    unknown: list[float | None] = [None] * len(unsorted)
    probabilities = unknown if found.probability is None else found.probability.tolist()
    for row, sets, probability in zip(unsorted, found.lists(), probabilities, strict=True):
        orders[row] = RegionOrder(tuple(sets), probability)
    return orders
