"""Which region a word belongs to, and after which words the captioner moves on."""

from collections.abc import Sequence
from itertools import pairwise


def slots(region_of_word: Sequence[int | None]) -> list[int | None]:
    """Give every word a region: a word that names none belongs to the one it leads up to.

    Words after the last chunk stay with it, as the pointer does (Eq. 1). None only where the caption names no region.

    >>> slots([None, 0, 0, None, 1, None])
    [0, 0, 0, 1, 1, 1]
    """
    filled = list(region_of_word)
    last = next((region for region in reversed(filled) if region is not None), None)
    upcoming = last
    for position in reversed(range(len(filled))):
        if filled[position] is None:
            filled[position] = upcoming
        else:
            upcoming = filled[position]
    return filled


def shift_targets(region_of_word: Sequence[int | None]) -> list[bool]:
    """Mark the words after which the captioner should move on to the next region.

    A word that names no region ("rides") belongs to the region it leads up to, so every move falls on the last word
    of a noun chunk.

    >>> shift_targets([0, 0, None, 1, 1, 1])  # a man | rides | a brown horse
    [False, True, False, False, False, False]
    """
    filled = slots(region_of_word)
    return [here != after for here, after in pairwise(filled)] + [False] * bool(filled)
