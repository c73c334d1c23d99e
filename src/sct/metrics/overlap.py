"""The n-grams that each candidate shares with its references, which BLEU and CIDEr both judge by."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from sct.metrics.ngrams import NGrams, changes, count_ngrams
from sct.metrics.ragged import Ragged


@dataclass(frozen=True, slots=True, eq=False)
class Overlap:
    """The n-grams of one length in candidates and references, each candidate the caption before its references.

    Entries are those of ``ngrams``.
    """

    ngrams: NGrams
    documents: Int[np.ndarray, " ngrams"]
    """How many candidates have the n-gram in a reference."""
    candidate_entry: Int[np.ndarray, " shared"]
    """Entries of candidates whose n-gram is in a reference of theirs."""
    reference_entries: Ragged
    """For each of these the entries of those references."""


@dataclass(frozen=True, slots=True, eq=False)
class Overlaps:
    """The captions that n-grams were counted in, and what was found."""

    group: Int[np.ndarray, " captions"]
    """The candidate that each caption is or is a reference of."""
    candidate: Int[np.ndarray, " groups"]
    """The row of each candidate among the captions."""
    num_words: Int[np.ndarray, " captions"]
    """How many words each caption has."""
    of_length: tuple[Overlap, ...]
    """N-grams of one to four words."""


def count_overlaps(
    candidates: Ragged, references: Ragged, reference_rows: Int[np.ndarray, " groups_and_one"], num_words: int
) -> Overlaps:
    """Count the n-grams of candidates and references together."""
    group = np.repeat(np.arange(len(candidates), dtype=np.int32), np.diff(reference_rows) + 1)
    candidate = reference_rows[:-1] + np.arange(len(candidates))
    is_candidate = np.zeros(len(group), dtype=np.bool_)
    is_candidate[candidate] = True
    captions = _together(candidates, references, is_candidate)
    ngrams = count_ngrams(captions, num_words)
    return Overlaps(
        group=group,
        candidate=candidate,
        num_words=captions.lengths(),
        of_length=tuple(_overlap(table, group, is_candidate) for table in ngrams),
    )


def _together(candidates: Ragged, references: Ragged, is_candidate: Bool[np.ndarray, " captions"]) -> Ragged:
    """Put each candidate before its references."""
    lengths = np.empty(len(is_candidate), dtype=np.int64)
    lengths[is_candidate], lengths[~is_candidate] = candidates.lengths(), references.lengths()
    of_candidate = np.repeat(is_candidate, lengths)
    values = np.empty(len(of_candidate), dtype=np.int64)
    values[of_candidate], values[~of_candidate] = candidates.values, references.values
    return Ragged(values, np.concatenate([[0], np.cumsum(lengths)]))


def _overlap(
    ngrams: NGrams, group: Int[np.ndarray, " captions"], is_candidate: Bool[np.ndarray, " captions"]
) -> Overlap:
    """Find the n-grams that candidates share with their references.

    An n-gram's entries of one group stand together, the candidate's first if it has one, so nothing is looked up.
    """
    # What occurs once is in one caption, so it is shared by none and in one document or, for CIDEr the same, in none.
    caption, ngram = ngrams.caption[: ngrams.num_repeated], ngrams.ngram[: ngrams.num_repeated]
    first = np.flatnonzero(changes(ngram) | changes(group[caption]))
    led = is_candidate[caption[first]]
    num_references = np.diff(first, append=len(ngram)) - led
    documents = np.bincount(ngram[first[num_references > 0]], minlength=len(ngrams.prefix))

    shared = np.flatnonzero(led & (num_references > 0))
    ends = np.concatenate([[0], np.cumsum(num_references[shared])])
    entries = np.arange(ends[-1]) + np.repeat(first[shared] + 1 - ends[:-1], num_references[shared])
    return Overlap(ngrams, documents, first[shared], Ragged(entries, ends))
