"""ROUGE-L (Lin 2004), equal to the official COCO caption evaluation."""

import numpy as np
from jaxtyping import Int

from sct.metrics.arrays import RaggedArray
from sct.metrics.captions import Pairs
from sct.metrics.interface import Score

_BETA_SQUARED = 1.2**2
_BITS = 64


def rouge_l(pairs: Pairs) -> Score:
    """F-score of the longest common subsequence of candidate and reference, with beta 1.2.

    Precision and recall are each the maximum over references, possibly of different ones. As in the official tool,
    which splits on single spaces, an empty caption counts as one word that only another empty caption shares.

    >>> from sct.metrics.captions import pair
    >>> round(rouge_l(pair(["a dog runs"], [["a big dog"]])).corpus, 4)
    0.6667
    """
    sizes = np.diff(pairs.reference_offsets)
    candidate_lengths = np.repeat(pairs.candidates.lengths(), sizes)
    reference_lengths = pairs.references.lengths()
    common = _lcs_lengths(pairs) + ((candidate_lengths == 0) & (reference_lengths == 0))
    precision = np.maximum.reduceat(common / np.maximum(candidate_lengths, 1), pairs.reference_offsets[:-1])
    recall = np.maximum.reduceat(common / np.maximum(reference_lengths, 1), pairs.reference_offsets[:-1])
    denominator = recall + _BETA_SQUARED * precision
    per_caption = (1 + _BETA_SQUARED) * precision * recall / np.where(denominator > 0, denominator, 1)
    return Score.mean(per_caption)


def _lcs_lengths(pairs: Pairs) -> Int[np.ndarray, " references"]:
    """Length of the longest common subsequence of each reference and its candidate.

    Bit-parallel dynamic programming (Hyyro 2004) over all references at once: a row of the table is one 64-bit integer,
    and a word of the reference costs three operations. Candidates of more than 64 words use Python integers.
    """
    group = np.repeat(np.arange(len(pairs)), np.diff(pairs.reference_offsets))
    is_long = pairs.candidates.lengths() > _BITS
    lengths = _lcs_of_short_candidates(pairs, group)
    for row in np.flatnonzero(is_long[group]).tolist():
        lengths[row] = _lcs_of_long_candidate(
            pairs.candidates[int(group[row])].tolist(), pairs.references[row].tolist()
        )
    return lengths


def _lcs_of_short_candidates(pairs: Pairs, group: Int[np.ndarray, " references"]) -> Int[np.ndarray, " references"]:
    """LCS lengths for candidates of at most 64 words; arbitrary values for longer ones."""
    masks = _position_masks(pairs, group)
    # Most shared words first, so that the references with words left are always a prefix.
    order = np.argsort(-masks.lengths(), kind="stable")
    starts, counts = masks.offsets[:-1][order], masks.lengths()[order]
    # A zero bit is a word of the candidate that extends the subsequence.
    rows = np.full(len(order), np.iinfo(np.uint64).max, dtype=np.uint64)
    for step in range(int(counts[0])):
        active = int(np.searchsorted(-counts, -step, side="left"))
        row = rows[:active]
        matched = row & masks.values[starts[:active] + step]
        row[:] = (row + matched) | (row - matched)
    lengths = np.empty(len(order), dtype=np.int64)
    lengths[order] = np.bitwise_count(~rows)
    return lengths


def _position_masks(pairs: Pairs, group: Int[np.ndarray, " references"]) -> RaggedArray:
    """Bit mask of the positions in the candidate of each reference word; words absent there are omitted."""
    num_words = max(1, len(pairs.words))
    candidate_group = np.repeat(np.arange(len(pairs)), pairs.candidates.lengths())
    position = np.arange(len(candidate_group)) - np.repeat(pairs.candidates.offsets[:-1], pairs.candidates.lengths())
    candidate_keys = candidate_group * num_words + pairs.candidates.values
    order = np.argsort(candidate_keys, kind="stable")
    candidate_keys = candidate_keys[order]
    first = np.flatnonzero(np.concatenate([[True], candidate_keys[1:] != candidate_keys[:-1]])[: len(candidate_keys)])
    bits = np.uint64(1) << (position[order] % _BITS).astype(np.uint64)
    masks = np.bitwise_or.reduceat(bits, first) if len(candidate_keys) else bits
    keys = candidate_keys[first]

    reference_keys = np.repeat(group, pairs.references.lengths()) * num_words + pairs.references.values
    rows = np.minimum(np.searchsorted(keys, reference_keys), max(0, len(keys) - 1))
    shared = np.flatnonzero(keys[rows] == reference_keys) if len(keys) else np.zeros(0, dtype=np.int64)
    return RaggedArray(masks[rows[shared]], np.searchsorted(shared, pairs.references.offsets))


def _lcs_of_long_candidate(candidate: list[int], reference: list[int]) -> int:
    """LCS length of one pair of any length."""
    masks: dict[int, int] = {}
    for position, word in enumerate(candidate):
        masks[word] = masks.get(word, 0) | (1 << position)
    full = (1 << len(candidate)) - 1
    row = full
    for word in reference:
        matched = row & masks.get(word, 0)
        row = ((row + matched) | (row - matched)) & full
    return len(candidate) - row.bit_count()
