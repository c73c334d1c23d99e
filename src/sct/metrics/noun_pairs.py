"""The nouns of candidates and references, laid out so that numpy compares many pairs of captions at once."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from sct.language.noun_table import NO_NOUN, NounTable
from sct.metrics.arrays import RaggedArray
from sct.metrics.captions import Pairs
from sct.metrics.interface import Score

CELLS_AT_ONCE = 1 << 17
"""Similarities in one array: few enough to stay in the processor's cache, and for very long captions in memory."""


@dataclass(frozen=True, slots=True, eq=False)
class NounPairs:
    """Rows in the noun table of what each candidate and each reference names, in order."""

    candidates: RaggedArray
    references: RaggedArray
    reference_rows: Int[np.ndarray, " candidates_and_one"]
    """As in ``Pairs``."""

    def candidate_of_reference(self) -> Int[np.ndarray, " references"]:
        """Which candidate each reference judges."""
        return np.repeat(np.arange(len(self.candidates)), np.diff(self.reference_rows))

    def num_candidate_nouns(self) -> Int[np.ndarray, " references"]:
        """Nouns of the candidate that each reference judges."""
        counts: np.ndarray = np.repeat(self.candidates.lengths(), np.diff(self.reference_rows))
        return counts

    def mean_over_references(self, scores: Float[np.ndarray, " references"]) -> Score:
        """Mean over the references of a candidate, then over candidates."""
        sums = np.bincount(self.candidate_of_reference(), scores, minlength=len(self.candidates))
        per_caption = sums / np.diff(self.reference_rows)
        return Score(float(per_caption.mean()), per_caption)


@dataclass(frozen=True, slots=True, eq=False)
class SizeBucket:
    """Pairs of captions with the same numbers of nouns, neither of them 0."""

    references: Int[np.ndarray, " pairs"]
    """Rows of the references."""
    similarities: Float[np.ndarray, "candidate_nouns reference_nouns pairs"]


def nouns_of(pairs: Pairs, table: NounTable) -> NounPairs:
    """Leave only the nouns of captions."""
    noun_of_word = table.rows_of(pairs.words)
    return NounPairs(
        _nouns(pairs.candidates, noun_of_word), _nouns(pairs.references, noun_of_word), pairs.reference_rows
    )


def sets_of_nouns(pairs: Pairs, table: NounTable) -> NounPairs:
    """Leave only the nouns of captions, each once, in no order."""
    nouns = nouns_of(pairs, table)
    return NounPairs(_without_repeats(nouns.candidates), _without_repeats(nouns.references), nouns.reference_rows)


def bucket_by_size(nouns: NounPairs, table: NounTable) -> Iterator[SizeBucket]:
    """Sort pairs by their numbers of nouns, so that a whole array of them is compared at once without padding.

    Captions have few nouns, so there are few such sizes. Pairs with an empty side are left out.
    """
    candidate_of = nouns.candidate_of_reference()
    num_candidate, num_reference = nouns.num_candidate_nouns(), nouns.references.lengths()
    filled = np.flatnonzero((num_candidate > 0) & (num_reference > 0))
    sizes = num_candidate[filled] * (num_reference.max(initial=0) + 1) + num_reference[filled]
    order = np.argsort(sizes, kind="stable")
    starts = np.flatnonzero(np.diff(sizes[order])) + 1
    for rows in np.split(filled[order], starts) if len(filled) else ():
        m, n = int(num_candidate[rows[0]]), int(num_reference[rows[0]])
        for part in np.array_split(rows, -(-len(rows) * m * n // CELLS_AT_ONCE)):
            said = _rectangle(nouns.candidates, candidate_of[part], m)
            expected = _rectangle(nouns.references, part, n)
            # Pairs last: whoever works on them goes through nouns one by one and through pairs all at once.
            yield SizeBucket(part, np.ascontiguousarray(table.similarities(said, expected).transpose(1, 2, 0)))


def _nouns(captions: RaggedArray, noun_of_word: Int[np.ndarray, " words"]) -> RaggedArray:
    found = noun_of_word[captions.values] if len(captions.values) else captions.values
    are_nouns = found != NO_NOUN
    nouns_before = np.concatenate([[0], np.cumsum(are_nouns)])
    return RaggedArray(found[are_nouns], nouns_before[captions.offsets])


def _without_repeats(captions: RaggedArray) -> RaggedArray:
    owners = np.repeat(np.arange(len(captions)), captions.lengths())
    size = int(captions.values.max(initial=0)) + 1
    keys = np.sort(owners * size + captions.values)
    owners, values = np.divmod(keys[np.diff(keys, prepend=-1) > 0], size)
    return RaggedArray(values, np.searchsorted(owners, np.arange(len(captions) + 1)))


def _rectangle(lists: RaggedArray, rows: Int[np.ndarray, " rows"], length: int) -> Int[np.ndarray, "rows length"]:
    """Lists that are all of one length."""
    values: np.ndarray = lists.values[lists.offsets[rows][:, None] + np.arange(length)]
    return values
