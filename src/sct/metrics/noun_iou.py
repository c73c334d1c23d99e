"""Soft noun IoU: does a caption name the same things as its reference, in whatever order? The paper's Eq. 14."""

from itertools import combinations

import numpy as np
from jaxtyping import Float

from sct.language.noun_table import NounTable
from sct.metrics.captions import Pairs
from sct.metrics.interface import MetricUnavailable, Score
from sct.metrics.noun_pairs import bucket_by_size, nouns_of, sets_of_nouns

MOST_BY_SUBSETS = 6
"""Up to so many nouns on the longer side, going through subsets of them beats the Hungarian algorithm pair by pair."""


def noun_iou(pairs: Pairs, table: NounTable, *, reference: bool = False) -> Score:
    """Intersection over union of the nouns of each candidate and each reference, from 0 to 1.

    Two nouns intersect by how alike they are, (cosine + 1) / 2, and partners are chosen so that all together intersect
    most. Two captions without a noun agree: 1.

    ``reference``: as the authors' released code scores. It counts a repeated noun as often as it comes, where the paper
    has sets; a reference without a noun gives 1 whatever the candidate says; and nouns without a vector are none.

    >>> from sct.metrics.captions import pair
    >>> table = NounTable.from_vectors(["man", "boy", "dog"], np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), "by hand")
    >>> round(noun_iou(pair(["a dog and a boy"], [["a man"]]), table).corpus, 6)  # 0.9 / (2 + 1 - 0.9)
    0.428571
    """
    table = table.known() if reference else table
    nouns = nouns_of(pairs, table) if reference else sets_of_nouns(pairs, table)
    num_candidate, num_reference = nouns.num_candidate_nouns(), nouns.references.lengths()
    scores = np.where((num_reference == 0) & (reference | (num_candidate == 0)), 1.0, 0.0)
    for group in bucket_by_size(nouns, table):
        intersection = best_assignment((group.similarities + 1) / 2)
        scores[group.references] = intersection / (sum(group.similarities.shape[:2]) - intersection)
    return nouns.mean_over_references(scores)


def best_assignment(profits: Float[np.ndarray, "m n pairs"]) -> Float[np.ndarray, " pairs"]:
    """Largest sum of profits when each of the fewer things gets one of the others to itself, for many pairs at once.

    >>> best_assignment(np.array([[[0.5], [0.75]], [[0.25], [1.0]]])).tolist()  # 0.5 + 1, not 0.75 + 0.25
    [1.5]
    """
    if profits.shape[0] > profits.shape[1]:
        profits = profits.transpose(1, 0, 2)
    return _by_subsets(profits) if profits.shape[1] <= MOST_BY_SUBSETS else _by_hungarian(profits)


def _by_subsets(profits: Float[np.ndarray, "m n pairs"]) -> Float[np.ndarray, " pairs"]:
    """Best sums of the first rows on each subset of columns, row after row."""
    num_rows, num_columns, num_pairs = profits.shape
    best = {0: np.zeros(num_pairs)}
    for row in range(num_rows):
        taken_before, best = best, {}
        for columns in combinations(range(num_columns), row + 1):
            subset = sum(1 << column for column in columns)
            sums = [taken_before[subset - (1 << column)] + profits[row, column] for column in columns]
            best[subset] = np.maximum.reduce(sums)
    largest: np.ndarray = np.maximum.reduce(list(best.values()))
    return largest


def _by_hungarian(profits: Float[np.ndarray, "m n pairs"]) -> Float[np.ndarray, " pairs"]:
    try:
        from scipy.optimize import linear_sum_assignment  # noqa: PLC0415
    except ImportError as error:
        raise MetricUnavailable(
            f"noun IoU of captions with more than {MOST_BY_SUBSETS} nouns needs scipy: pip install scipy"
        ) from error
    one_by_one = np.ascontiguousarray(profits.transpose(2, 0, 1))
    return np.array([each[linear_sum_assignment(each, maximize=True)].sum() for each in one_by_one])
