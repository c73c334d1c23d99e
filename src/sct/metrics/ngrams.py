"""Runs of one to four words, numbered and counted over all captions at once.

An n-gram is numbered by its first words, which are an n-gram numbered before, and its last word. So a key is two
numbers however long the n-gram is, no number of words is too many, and one sort a length, of keys that carry the place
they came from, tells everything: which n-grams there are, in which captions, and how often.

The n-grams that each candidate shares with its references, which BLEU and CIDEr both judge by.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from sct.metrics.arrays import RaggedArray

LONGEST = 4
"""Words in the longest n-gram that BLEU and CIDEr count."""


@dataclass(frozen=True, slots=True, eq=False)
class NGrams:
    """N-grams of one length: an entry for each n-gram of each caption, by n-gram and then by caption."""

    ngram: Int[np.ndarray, " entries"]
    """Number of the n-gram."""
    caption: Int[np.ndarray, " entries"]
    """Row of the caption."""
    count: Int[np.ndarray, " entries"]
    """How often the caption holds the n-gram."""
    prefix: Int[np.ndarray, " ngrams"]
    """Number of the n-gram, one word shorter, that each begins with; 0 for single words."""
    last_word: Int[np.ndarray, " ngrams"]
    """Number of the word that each ends with."""
    num_repeated: int
    """Every n-gram from this entry on occurs once among all captions."""


def count_ngrams(captions: RaggedArray, num_words: int) -> tuple[NGrams, ...]:
    """Count the n-grams of one to four words; the n-grams of ``n`` words are at ``n - 1``."""
    values = captions.values.astype(np.int64)
    row_of = np.repeat(np.arange(len(captions), dtype=np.int32), captions.lengths())
    words_left = np.repeat(captions.offsets[1:], captions.lengths()) - np.arange(len(values))
    number_at = np.zeros(len(values), dtype=np.int64)
    once_at = np.zeros(len(values) + 1, dtype=np.bool_)
    tables = []
    for length in range(1, LONGEST + 1):
        places = np.flatnonzero(words_left >= length)
        # What holds a shorter n-gram that occurs once occurs once itself, and need not be looked for: most long ones.
        once = once_at[places] | once_at[places + 1]
        lone, places = places[once], places[~once]
        keys, places = _sort(number_at[places] * num_words + values[places + length - 1], places, len(values))
        rows = row_of[places]
        new_ngram = changes(keys)
        entries = np.flatnonzero(new_ngram | changes(rows))
        numbers = np.cumsum(new_ngram, dtype=np.int32) - np.int32(1)
        prefix, last_word = np.divmod(keys[new_ngram], num_words)
        lone_numbers = np.arange(len(prefix), len(prefix) + len(lone), dtype=np.int32)
        counts = np.ones(len(entries) + len(lone), dtype=np.int32)
        counts[: len(entries)] = np.diff(entries, append=len(keys))
        tables.append(
            NGrams(
                ngram=np.concatenate([numbers[entries], lone_numbers]),
                caption=np.concatenate([rows[entries], row_of[lone]]),
                count=counts,
                prefix=np.concatenate([prefix, number_at[lone]], dtype=np.int32),
                last_word=np.concatenate([last_word, values[lone + length - 1]]).astype(captions.values.dtype),
                num_repeated=len(entries),
            )
        )
        number_at[places], number_at[lone] = numbers, lone_numbers
        once_at[places], once_at[lone] = new_ngram & np.append(new_ngram[1:], True), True
    return tuple(tables)


def changes(values: Int[np.ndarray, " values"]) -> Bool[np.ndarray, " values"]:
    """Which values differ from the one before; the first does."""
    changes = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes


def _sort(
    keys: Int[np.ndarray, " keys"], places: Int[np.ndarray, " keys"], num_places: int
) -> tuple[Int[np.ndarray, " keys"], Int[np.ndarray, " keys"]]:
    """Sort keys, and the places they came from with them, equal keys by place."""
    bits = max(1, num_places).bit_length()
    if len(keys) and int(keys.max()) >> (63 - bits):
        order = np.argsort(keys, kind="stable")
        return keys[order], places[order]
    # Sorting plain numbers is several times faster than finding their order, so the place rides in the low bits.
    together = (keys << bits) | places
    together.sort()
    return together >> bits, together & ((1 << bits) - 1)


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
    reference_entries: RaggedArray
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
    candidates: RaggedArray, references: RaggedArray, reference_rows: Int[np.ndarray, " groups_and_one"], num_words: int
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


def _together(
    candidates: RaggedArray, references: RaggedArray, is_candidate: Bool[np.ndarray, " captions"]
) -> RaggedArray:
    """Put each candidate before its references."""
    lengths = np.empty(len(is_candidate), dtype=np.int64)
    lengths[is_candidate], lengths[~is_candidate] = candidates.lengths(), references.lengths()
    of_candidate = np.repeat(is_candidate, lengths)
    values = np.empty(len(of_candidate), dtype=np.int64)
    values[of_candidate], values[~of_candidate] = candidates.values, references.values
    return RaggedArray(values, np.concatenate([[0], np.cumsum(lengths)]))


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
    return Overlap(ngrams, documents, first[shared], RaggedArray(entries, ends))
