"""Nouns of candidates and references, bucketed by count so that numpy compares many pairs at once."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from sct.language.noun_table import NO_NOUN, NounTable
from sct.metrics.arrays import RaggedArray
from sct.metrics.captions import Pairs
from sct.metrics.interface import Score

BUCKET_CELLS = 1 << 17
"""Similarities per array: small enough for the CPU cache, and for memory with very long captions."""


@dataclass(frozen=True, slots=True, eq=False)
class NounPairs:
    """Noun-table rows of the nouns of each candidate and reference, in order of mention."""

    candidates: RaggedArray
    references: RaggedArray
    reference_offsets: Int[np.ndarray, " candidates_and_one"]
    """As in ``Pairs``."""

    def candidate_of_reference(self) -> Int[np.ndarray, " references"]:
        """Candidate index of each reference."""
        return np.repeat(np.arange(len(self.candidates)), np.diff(self.reference_offsets))

    def num_candidate_nouns(self) -> Int[np.ndarray, " references"]:
        """Number of nouns of the candidate of each reference."""
        counts: np.ndarray = np.repeat(self.candidates.lengths(), np.diff(self.reference_offsets))
        return counts

    def mean_over_references(self, scores: Float[np.ndarray, " references"]) -> Score:
        """Average over the references of each candidate, then over candidates."""
        sums = np.bincount(self.candidate_of_reference(), scores, minlength=len(self.candidates))
        per_caption = sums / np.diff(self.reference_offsets)
        return Score.mean(per_caption)


@dataclass(frozen=True, slots=True, eq=False)
class SizeBucket:
    """Pairs with the same number of candidate nouns and of reference nouns, both positive."""

    references: Int[np.ndarray, " pairs"]
    """Rows of the references."""
    similarities: Float[np.ndarray, "candidate_nouns reference_nouns pairs"]


def extract_nouns(pairs: Pairs, table: NounTable) -> NounPairs:
    """Keep the nouns of each caption, in order."""
    noun_of_word = table.indices(pairs.words)
    return NounPairs(
        _filter_nouns(pairs.candidates, noun_of_word),
        _filter_nouns(pairs.references, noun_of_word),
        pairs.reference_offsets,
    )


def extract_noun_sets(pairs: Pairs, table: NounTable) -> NounPairs:
    """Keep the distinct nouns of each caption, in no particular order."""
    nouns = extract_nouns(pairs, table)
    return NounPairs(_deduplicate(nouns.candidates), _deduplicate(nouns.references), nouns.reference_offsets)


def bucket_by_size(nouns: NounPairs, table: NounTable) -> Iterator[SizeBucket]:
    """Group pairs by their numbers of nouns, so that similarities need no padding.

    Captions have few nouns, so there are few buckets. Pairs with an empty side are omitted.
    """
    candidate_of = nouns.candidate_of_reference()
    num_candidate, num_reference = nouns.num_candidate_nouns(), nouns.references.lengths()
    nonempty = np.flatnonzero((num_candidate > 0) & (num_reference > 0))
    sizes = num_candidate[nonempty] * (num_reference.max(initial=0) + 1) + num_reference[nonempty]
    order = np.argsort(sizes, kind="stable")
    starts = np.flatnonzero(np.diff(sizes[order])) + 1
    for rows in np.split(nonempty[order], starts) if len(nonempty) else ():
        m, n = int(num_candidate[rows[0]]), int(num_reference[rows[0]])
        for chunk in np.array_split(rows, -(-len(rows) * m * n // BUCKET_CELLS)):
            candidates = _stack(nouns.candidates, candidate_of[chunk], m)
            references = _stack(nouns.references, chunk, n)
            # Pairs on the last axis: the dynamic programs loop over nouns and vectorise over pairs.
            yield SizeBucket(chunk, np.ascontiguousarray(table.similarities(candidates, references).transpose(1, 2, 0)))


def _filter_nouns(captions: RaggedArray, noun_of_word: Int[np.ndarray, " words"]) -> RaggedArray:
    rows = noun_of_word[captions.values] if len(captions.values) else captions.values
    is_noun = rows != NO_NOUN
    nouns_before = np.concatenate([[0], np.cumsum(is_noun)])
    return RaggedArray(rows[is_noun], nouns_before[captions.offsets])


def _deduplicate(captions: RaggedArray) -> RaggedArray:
    owners = np.repeat(np.arange(len(captions)), captions.lengths())
    base = int(captions.values.max(initial=0)) + 1
    keys = np.sort(owners * base + captions.values)
    owners, values = np.divmod(keys[np.diff(keys, prepend=-1) > 0], base)
    return RaggedArray(values, np.searchsorted(owners, np.arange(len(captions) + 1)))


def _stack(lists: RaggedArray, rows: Int[np.ndarray, " rows"], length: int) -> Int[np.ndarray, "rows length"]:
    """Stack lists that all have the same length."""
    values: np.ndarray = lists.values[lists.offsets[rows][:, None] + np.arange(length)]
    return values
