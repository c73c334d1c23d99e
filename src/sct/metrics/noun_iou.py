"""Soft noun IoU (the paper's Eq. 14): overlap of the nouns of caption and reference, regardless of order."""

from itertools import combinations

import numpy as np
from jaxtyping import Float

from sct.language.noun_table import NounTable
from sct.metrics.captions import Pairs
from sct.metrics.interface import MetricUnavailable, Score
from sct.metrics.noun_pairs import bucket_by_size, extract_noun_sets, extract_nouns

MAX_SUBSET_NOUNS = 6
"""Up to this many nouns on the longer side, vectorised subset enumeration beats the Hungarian algorithm per pair."""


def noun_iou(pairs: Pairs, table: NounTable, *, reference: bool = False) -> Score:
    """Intersection over union of the nouns of each candidate and its references, from 0 to 1.

    The intersection is the maximum-weight matching of nouns with weights (cosine + 1) / 2. Two captions without nouns
    score 1.

    ``reference`` scores as the authors' released code: repeated nouns count repeatedly (the paper has sets), a
    reference without nouns scores 1 whatever the candidate, and nouns without a vector are ignored.

    >>> from sct.metrics.captions import pair
    >>> table = NounTable.from_vectors(["man", "boy", "dog"], np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), "toy")
    >>> round(noun_iou(pair(["a dog and a boy"], [["a man"]]), table).corpus, 6)  # 0.9 / (2 + 1 - 0.9)
    0.428571
    """
    table = table.with_vectors() if reference else table
    nouns = extract_nouns(pairs, table) if reference else extract_noun_sets(pairs, table)
    num_candidate, num_reference = nouns.num_candidate_nouns(), nouns.references.lengths()
    scores = np.where((num_reference == 0) & (reference | (num_candidate == 0)), 1.0, 0.0)
    for bucket in bucket_by_size(nouns, table):
        intersection = max_weight_matching((bucket.similarities + 1) / 2)
        scores[bucket.references] = intersection / (sum(bucket.similarities.shape[:2]) - intersection)
    return nouns.mean_over_references(scores)


def max_weight_matching(weights: Float[np.ndarray, "m n pairs"]) -> Float[np.ndarray, " pairs"]:
    """Total weight of the best one-to-one assignment, for many pairs at once.

    >>> max_weight_matching(np.array([[[0.5], [0.75]], [[0.25], [1.0]]])).tolist()  # 0.5 + 1, not 0.75 + 0.25
    [1.5]
    """
    if weights.shape[0] > weights.shape[1]:
        weights = weights.transpose(1, 0, 2)
    return _match_by_subsets(weights) if weights.shape[1] <= MAX_SUBSET_NOUNS else _match_by_hungarian(weights)


def _match_by_subsets(weights: Float[np.ndarray, "m n pairs"]) -> Float[np.ndarray, " pairs"]:
    """Dynamic program over subsets of columns, one row at a time."""
    num_rows, num_columns, num_pairs = weights.shape
    best = {0: np.zeros(num_pairs)}
    for row in range(num_rows):
        previous, best = best, {}
        for columns in combinations(range(num_columns), row + 1):
            subset = sum(1 << column for column in columns)
            sums = [previous[subset - (1 << column)] + weights[row, column] for column in columns]
            best[subset] = np.maximum.reduce(sums)
    maximum: np.ndarray = np.maximum.reduce(list(best.values()))
    return maximum


def _match_by_hungarian(weights: Float[np.ndarray, "m n pairs"]) -> Float[np.ndarray, " pairs"]:
    try:
        from scipy.optimize import linear_sum_assignment  # noqa: PLC0415
    except ImportError as error:
        raise MetricUnavailable(
            f"noun IoU of captions with more than {MAX_SUBSET_NOUNS} nouns needs scipy: pip install scipy"
        ) from error
    pairs_first = np.ascontiguousarray(weights.transpose(2, 0, 1))
    return np.array([each[linear_sum_assignment(each, maximize=True)].sum() for each in pairs_first])
