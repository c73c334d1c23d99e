"""Which region a word belongs to, and after which words the captioner moves on."""

from collections.abc import Sequence
from itertools import pairwise


def slots(region_of_word: Sequence[int | None], *, tail: int | None = None) -> list[int | None]:
    """Give every word a region: a word that names none belongs to the one it leads up to.

    Words after the last chunk stay with it, as the pointer does (Eq. 1); the authors' code gives them a region set of
    their own, which ``tail`` names. None only where the caption names no region.

    >>> slots([None, 0, 0, None, 1, None])
    [0, 0, 0, 1, 1, 1]
    >>> slots([None, 0, 0, None, 1, None], tail=9)
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


def shift_targets(region_of_word: Sequence[int | None], *, tail: int | None = None) -> list[bool]:
    """Mark the words after which the captioner should move on to the next region.

    A word that names no region ("rides") belongs to the region it leads up to, so every move falls on the last word
    of a noun chunk. With a ``tail`` (see ``slots``) the last chunk is left as well where words follow it, and two
    chunks that share a label are one, as in the authors' code.

    >>> shift_targets([0, 0, None, 1, 1, 1])  # a man | rides | a brown horse
    [False, True, False, False, False, False]
    >>> shift_targets([0, 0, None], tail=9)
    [False, True, False]
    """
    filled = slots(region_of_word, tail=tail)
    return [here != after for here, after in pairwise(filled)] + [False] * bool(filled)
