"""Training targets of the chunk-shifting gate: the region of each word, and the words after which it shifts."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

GateTargets = Literal["every_chunk", "between_chunks"]
"""Words after which the gate shifts: the last one of every chunk (the paper), or of every chunk but the last."""
_END = -1
"""Label of words after the last chunk, different from all chunks."""


def fill_regions(region_of_word: Sequence[int | None], *, tail: int | None = None) -> list[int | None]:
    """Assign a region to every word: a word outside chunks takes that of the chunk that follows.

    Words after the last chunk keep its region, as in Eq. 1, or take ``tail``, as in the authors' code. None remains
    only in captions without a region.

    >>> fill_regions([None, 0, 0, None, 1, None])
    [0, 0, 0, 1, 1, 1]
    >>> fill_regions([None, 0, 0, None, 1, None], tail=9)
    [0, 0, 0, 1, 1, 9]
    """
    filled = list(region_of_word)
    last = next((region for region in reversed(filled) if region is not None), None)
    upcoming = last if tail is None else tail
    for position in reversed(range(len(filled))):
        if filled[position] is None:
            filled[position] = upcoming
        else:
            upcoming = filled[position]
    return filled


def shift_targets(
    region_of_word: Sequence[int | None], *, tail: int | None = None, targets: GateTargets = "between_chunks"
) -> list[bool]:
    """Gate targets: True on the last word of each noun chunk, except, ``between_chunks``, of the last one.

    Words outside chunks ("rides") belong to the chunk that follows. With a ``tail`` (see ``fill_regions``), as in the
    authors' code, words after the last chunk add a shift, and adjacent chunks with the same label count as one.

    >>> shift_targets([0, 0, None, 1, 1, 1], targets="every_chunk")  # a man | rides | a brown horse
    [False, True, False, False, False, True]
    >>> shift_targets([0, 0, None, 1, 1, 1])
    [False, True, False, False, False, False]
    >>> shift_targets([0, 0, None], tail=9)
    [False, True, False]
    """
    if targets == "every_chunk":
        filled = fill_regions(region_of_word, tail=_END)
        return [here != after for here, after in pairwise([*filled, _END])]
    filled = fill_regions(region_of_word, tail=tail)
    return [here != after for here, after in pairwise(filled)] + [False] * bool(filled)
