"""The n-grams that each candidate shares with its references, which BLEU and CIDEr both judge by."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from sct.metrics.ngrams import NGrams, count_ngrams
from sct.metrics.ragged import Ragged


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """Each n-gram of a reference that its candidate holds too, by n-gram and then by reference."""

    entry: Int[np.ndarray, " shared"]
    """The reference's entry in ``NGrams``."""
    candidate_count: Int[np.ndarray, " shared"]
    """How often the candidate holds the n-gram."""


@dataclass(frozen=True, slots=True, eq=False)
class Overlap:
    """All n-grams of candidates and references, counted together, each candidate just before its references."""

    group: Int[np.ndarray, " captions"]
    """The candidate that each caption is or is a reference of."""
    first: Int[np.ndarray, " groups"]
    """The row of each candidate among the captions."""
    ngrams: tuple[NGrams, ...]
    """The n-grams of one to four words."""
    shared: tuple[Shared, ...]
    """Where they agree, for one to four words."""


def count_overlap(
    candidates: Ragged, references: Ragged, reference_rows: Int[np.ndarray, " groups_and_one"], num_words: int
) -> Overlap:
    """Count the n-grams of candidates and references."""
    sizes = np.diff(reference_rows) + 1
    group = np.repeat(np.arange(len(candidates), dtype=np.int32), sizes)
    first = reference_rows[:-1] + np.arange(len(candidates))
    is_candidate = np.zeros(len(group), dtype=np.bool_)
    is_candidate[first] = True
    ngrams = count_ngrams(_together(candidates, references, is_candidate), num_words)
    return Overlap(group, first, ngrams, tuple(_shared(table, group, is_candidate) for table in ngrams))


def _together(candidates: Ragged, references: Ragged, is_candidate: Bool[np.ndarray, " captions"]) -> Ragged:
    """Put each candidate before its references."""
    lengths = np.empty(len(is_candidate), dtype=np.int64)
    lengths[is_candidate], lengths[~is_candidate] = candidates.lengths(), references.lengths()
    of_candidate = np.repeat(is_candidate, lengths)
    values = np.empty(len(of_candidate), dtype=np.int64)
    values[of_candidate], values[~of_candidate] = candidates.values, references.values
    return Ragged(values, np.concatenate([[0], np.cumsum(lengths)]))


def _shared(ngrams: NGrams, group: Int[np.ndarray, " captions"], is_candidate: Bool[np.ndarray, " captions"]) -> Shared:
    """Find the references' n-grams that the candidate holds.

    An n-gram's entries of one group stand together, the candidate's first, so the candidate of each entry is known by
    counting candidates up to it: the last one counts if it has the same n-gram and group.
    """
    groups = group[ngrams.caption]
    of_candidate = is_candidate[ngrams.caption]
    leaders = np.flatnonzero(of_candidate)
    if not len(leaders):
        return Shared(leaders, leaders)
    leader = leaders[np.maximum(np.cumsum(of_candidate, dtype=np.int32) - 1, 0)]
    agree = (groups == groups[leader]) & (ngrams.ngram == ngrams.ngram[leader]) & ~of_candidate
    entry = np.flatnonzero(agree)
    return Shared(entry, ngrams.count[leader[entry]])
