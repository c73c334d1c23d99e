"""Noun alignment (NW): does a caption name things in the order of its reference? The paper's Eq. 13."""

import numpy as np
from jaxtyping import Float

from sct.language.noun_table import NounTable
from sct.metrics.captions import Pairs
from sct.metrics.interface import Score
from sct.metrics.noun_pairs import bucket_by_size, nouns_of

GAP = -1.0
"""What a noun costs that is left without a partner: the least that two nouns can be alike."""


def noun_alignment(pairs: Pairs, table: NounTable, *, reference: bool = False) -> Score:
    """Align the nouns of each candidate with those of its references, from -1 to 1.

    Where neither has a noun there is nothing to align and the score is 0; where only one has, it is -1.

    ``reference``: as the authors' released code scores, which knows no nouns but those with a vector. It cuts captions
    in its own way too; see ``pair_on_spaces``.

    >>> from sct.metrics.captions import pair
    >>> table = NounTable.from_vectors(["man", "boy", "dog"], np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), "by hand")
    >>> round(noun_alignment(pair(["a boy and a dog"], [["a man and a dog"]]), table).corpus, 6)  # (0.8 + 1) / 2
    0.9
    """
    table = table.known() if reference else table
    nouns = nouns_of(pairs, table)
    num_candidate, num_reference = nouns.num_candidate_nouns(), nouns.references.lengths()
    scores = np.where((num_candidate > 0) | (num_reference > 0), GAP, 0.0)
    for group in bucket_by_size(nouns, table):
        scores[group.references] = best_alignment(group.similarities) / max(group.similarities.shape[:2])
    return nouns.mean_over_references(scores)


def best_alignment(similarities: Float[np.ndarray, "m n pairs"]) -> Float[np.ndarray, " pairs"]:
    """Score of the best alignment of two sequences by Needleman and Wunsch, for many pairs at once.

    >>> best_alignment(np.array([[[0.5], [1.0]]])).tolist()  # a gap, then the same noun
    [0.0]
    """
    num_rows, num_columns, num_pairs = similarities.shape
    gaps = GAP * np.arange(num_columns + 1)[:, None]
    best: np.ndarray = np.repeat(gaps, num_pairs, axis=1)
    for row in range(num_rows):
        ending_here = np.empty_like(best)
        ending_here[0] = GAP * (row + 1)
        np.maximum(best[:-1] + similarities[row], best[1:] + GAP, out=ending_here[1:])
        # A run of gaps costs the same a step, so the best place to begin it is a running maximum.
        best = np.maximum.accumulate(ending_here - gaps, axis=0) + gaps
    score: np.ndarray = best[-1]
    return score
