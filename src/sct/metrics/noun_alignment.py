"""Noun alignment (NW, the paper's Eq. 13): Needleman-Wunsch alignment of the nouns of caption and reference."""

import numpy as np
from jaxtyping import Float

from sct.language.noun_table import NounTable
from sct.metrics.captions import Pairs
from sct.metrics.interface import Score
from sct.metrics.noun_pairs import bucket_by_size, extract_nouns

GAP_SCORE = -1.0
"""Score of an unmatched noun: the minimum cosine similarity."""


def noun_alignment(pairs: Pairs, table: NounTable, *, reference: bool = False) -> Score:
    """Alignment score of the nouns of each candidate and its references, from -1 to 1.

    The score is 0 if neither has a noun and -1 if only one has.

    ``reference`` scores as the authors' released code: nouns without a vector are ignored. That code also splits
    captions on whitespace; see ``pair_on_whitespace``.

    >>> from sct.metrics.captions import pair
    >>> table = NounTable.from_vectors(["man", "boy", "dog"], np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), "toy")
    >>> round(noun_alignment(pair(["a boy and a dog"], [["a man and a dog"]]), table).corpus, 6)  # (0.8 + 1) / 2
    0.9
    """
    table = table.with_vectors() if reference else table
    nouns = extract_nouns(pairs, table)
    num_candidate, num_reference = nouns.num_candidate_nouns(), nouns.references.lengths()
    scores = np.where((num_candidate > 0) | (num_reference > 0), GAP_SCORE, 0.0)
    for bucket in bucket_by_size(nouns, table):
        scores[bucket.references] = needleman_wunsch(bucket.similarities) / max(bucket.similarities.shape[:2])
    return nouns.mean_over_references(scores)


def needleman_wunsch(similarities: Float[np.ndarray, "m n pairs"]) -> Float[np.ndarray, " pairs"]:
    """Score of the best global alignment of two sequences, for many pairs at once.

    >>> needleman_wunsch(np.array([[[0.5], [1.0]]])).tolist()  # a gap, then the same noun
    [0.0]
    """
    num_rows, num_columns, num_pairs = similarities.shape
    gaps = GAP_SCORE * np.arange(num_columns + 1)[:, None]
    best: np.ndarray = np.repeat(gaps, num_pairs, axis=1)
    for row in range(num_rows):
        without_gap_run = np.empty_like(best)
        without_gap_run[0] = GAP_SCORE * (row + 1)
        np.maximum(best[:-1] + similarities[row], best[1:] + GAP_SCORE, out=without_gap_run[1:])
        # A run of gaps costs the same per step, so its best start is a running maximum.
        best = np.maximum.accumulate(without_gap_run - gaps, axis=0) + gaps
    score: np.ndarray = best[-1]
    return score
