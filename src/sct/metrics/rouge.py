"""ROUGE-L after Lin 2004, as the official tool of the COCO captions counts it."""

import numpy as np
from jaxtyping import Int

from sct.metrics.arrays import RaggedArray
from sct.metrics.captions import Pairs
from sct.metrics.interface import Score

_BETA_SQUARED = 1.2**2
_BITS = 64


def rouge_l(pairs: Pairs) -> Score:
    """The longest run of words, gaps allowed, that candidate and reference share: F-score, recall counting more.

    Precision and recall are each the best over the references, maybe of two different ones. A caption without words
    counts as one word that only another such caption has, because the official tool splits text at single spaces.

    >>> from sct.metrics.captions import pair
    >>> round(rouge_l(pair(["a dog runs"], [["a big dog"]])).corpus, 4)
    0.6667
    """
    sizes = np.diff(pairs.reference_rows)
    own, theirs = np.repeat(pairs.candidates.lengths(), sizes), pairs.references.lengths()
    common = _common_lengths(pairs) + ((own == 0) & (theirs == 0))
    precision = np.maximum.reduceat(common / np.maximum(own, 1), pairs.reference_rows[:-1])
    recall = np.maximum.reduceat(common / np.maximum(theirs, 1), pairs.reference_rows[:-1])
    below = recall + _BETA_SQUARED * precision
    per_caption = (1 + _BETA_SQUARED) * precision * recall / np.where(below > 0, below, 1)
    return Score(float(per_caption.mean()), per_caption)


def _common_lengths(pairs: Pairs) -> Int[np.ndarray, " references"]:
    """Length of the longest common subsequence of each reference and its candidate.

    A row of the usual table is kept as the bits of one number, as Hyyro 2004 does, for all references at once: a word
    of the reference costs three operations. Candidates of more words than a number has bits take Python's numbers.
    """
    group = np.repeat(np.arange(len(pairs)), np.diff(pairs.reference_rows))
    is_long = pairs.candidates.lengths() > _BITS
    lengths = _of_numbers(pairs, group)
    for row in np.flatnonzero(is_long[group]).tolist():
        lengths[row] = _of_long(pairs.candidates[int(group[row])].tolist(), pairs.references[row].tolist())
    return lengths


def _of_numbers(pairs: Pairs, group: Int[np.ndarray, " references"]) -> Int[np.ndarray, " references"]:
    """Common lengths where the candidate is no longer than a number has bits; elsewhere anything."""
    masks = _word_masks(pairs, group)
    # References with most words in common first, so that those with a word left are always the first ones.
    order = np.argsort(-masks.lengths(), kind="stable")
    starts, counts = masks.offsets[:-1][order], masks.lengths()[order]
    # A zero bit is a word of the candidate that lengthens what is common.
    rows = np.full(len(order), np.iinfo(np.uint64).max, dtype=np.uint64)
    for step in range(int(counts[0])):
        left = int(np.searchsorted(-counts, -step, side="left"))
        row = rows[:left]
        kept = row & masks.values[starts[:left] + step]
        row[:] = (row + kept) | (row - kept)
    lengths = np.empty(len(order), dtype=np.int64)
    lengths[order] = np.bitwise_count(~rows)
    return lengths


def _word_masks(pairs: Pairs, group: Int[np.ndarray, " references"]) -> RaggedArray:
    """For each word of a reference that its candidate holds: at which places, as bits. Other words change nothing."""
    num_words = max(1, len(pairs.words))
    own_group = np.repeat(np.arange(len(pairs)), pairs.candidates.lengths())
    place = np.arange(len(own_group)) - np.repeat(pairs.candidates.offsets[:-1], pairs.candidates.lengths())
    own = own_group * num_words + pairs.candidates.values
    order = np.argsort(own, kind="stable")
    own = own[order]
    first = np.flatnonzero(np.concatenate([[True], own[1:] != own[:-1]])[: len(own)])
    bits = np.uint64(1) << (place[order] % _BITS).astype(np.uint64)
    own_masks = np.bitwise_or.reduceat(bits, first) if len(own) else bits
    keys = own[first]

    theirs = np.repeat(group, pairs.references.lengths()) * num_words + pairs.references.values
    found = np.minimum(np.searchsorted(keys, theirs), max(0, len(keys) - 1))
    shared = np.flatnonzero(keys[found] == theirs) if len(keys) else np.zeros(0, dtype=np.int64)
    return RaggedArray(own_masks[found[shared]], np.searchsorted(shared, pairs.references.offsets))


def _of_long(candidate: list[int], reference: list[int]) -> int:
    """Common length of one pair, of any length."""
    masks: dict[int, int] = {}
    for place, word in enumerate(candidate):
        masks[word] = masks.get(word, 0) | (1 << place)
    full = (1 << len(candidate)) - 1
    row = full
    for word in reference:
        kept = row & masks.get(word, 0)
        row = ((row + kept) | (row - kept)) & full
    return len(candidate) - row.bit_count()
