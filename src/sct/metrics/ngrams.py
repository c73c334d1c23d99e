"""N-gram counting over all captions at once, and the n-grams that candidates share with their references.

An n-gram is keyed by the id of its prefix, an n-gram of one word less, and its last word. A key is therefore two
integers whatever the length, no vocabulary is too large, and one sort per length, with the position packed into the low
bits of the key, yields the distinct n-grams, their captions and their counts.

``training/rewards/ngrams.py`` is the torch counterpart for sampled captions.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from sct.errors import InputError
from sct.metrics.arrays import RaggedArray, concat_ranges, lengths_to_offsets

MAX_NGRAM_SIZE = 4
"""Words in the longest n-gram of BLEU and CIDEr-D."""


@dataclass(frozen=True, slots=True, eq=False)
class NGrams:
    """N-grams of one size: one entry per distinct n-gram and caption, sorted by n-gram, then caption."""

    ngram: Int[np.ndarray, " entries"]
    """Id of the n-gram."""
    caption: Int[np.ndarray, " entries"]
    """Row of the caption."""
    count: Int[np.ndarray, " entries"]
    """Occurrences of the n-gram in the caption."""
    prefix: Int[np.ndarray, " ngrams"]
    """Id of the n-gram without its last word; 0 for single words."""
    last_word: Int[np.ndarray, " ngrams"]
    """Id of the last word."""
    num_repeated: int
    """Entries from this one on are n-grams that occur once in the corpus."""


def count_ngrams(captions: RaggedArray, num_words: int) -> tuple[NGrams, ...]:
    """Count the n-grams of 1 to ``MAX_NGRAM_SIZE`` words; those of ``n`` words are at index ``n - 1``."""
    if len(captions.values) > np.iinfo(np.int32).max:
        raise InputError(
            f"got {len(captions.values):,} words, expected fewer than 2**31: divide the captions into parts"
        )
    values = captions.values.astype(np.int64)
    row_of = np.repeat(np.arange(len(captions), dtype=np.int32), captions.lengths())
    words_left = np.repeat(captions.offsets[1:], captions.lengths()) - np.arange(len(values))
    id_at = np.zeros(len(values), dtype=np.int64)
    once_at = np.zeros(len(values) + 1, dtype=np.bool_)
    tables = []
    for size in range(1, MAX_NGRAM_SIZE + 1):
        positions = np.flatnonzero(words_left >= size)
        # An n-gram that contains a shorter one that occurs once occurs once too: most long ones skip the sort.
        once = once_at[positions] | once_at[positions + 1]
        lone, positions = positions[once], positions[~once]
        keys, positions = _sort(id_at[positions] * num_words + values[positions + size - 1], positions, len(values))
        rows = row_of[positions]
        new_ngram = is_run_start(keys)
        entries = np.flatnonzero(new_ngram | is_run_start(rows))
        ids = np.cumsum(new_ngram, dtype=np.int32) - np.int32(1)
        prefix, last_word = np.divmod(keys[new_ngram], num_words)
        lone_ids = np.arange(len(prefix), len(prefix) + len(lone), dtype=np.int32)
        counts = np.ones(len(entries) + len(lone), dtype=np.int32)
        counts[: len(entries)] = np.diff(entries, append=len(keys))
        tables.append(
            NGrams(
                ngram=np.concatenate([ids[entries], lone_ids]),
                caption=np.concatenate([rows[entries], row_of[lone]]),
                count=counts,
                prefix=np.concatenate([prefix, id_at[lone]], dtype=np.int32),
                last_word=np.concatenate([last_word, values[lone + size - 1]]).astype(captions.values.dtype),
                num_repeated=len(entries),
            )
        )
        id_at[positions], id_at[lone] = ids, lone_ids
        once_at[positions], once_at[lone] = new_ngram & np.append(new_ngram[1:], True), True
    return tuple(tables)


def is_run_start(values: Int[np.ndarray, " values"]) -> Bool[np.ndarray, " values"]:
    """Mask of values that differ from their predecessor; the first is True."""
    starts = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=starts[1:])
    return starts


def _sort(
    keys: Int[np.ndarray, " keys"], positions: Int[np.ndarray, " keys"], num_positions: int
) -> tuple[Int[np.ndarray, " keys"], Int[np.ndarray, " keys"]]:
    """Sort keys together with their positions; equal keys by position."""
    bits = max(1, num_positions).bit_length()
    if len(keys) and int(keys.max()) >> (63 - bits):
        order = np.argsort(keys, kind="stable")
        return keys[order], positions[order]
    # Sorting integers is several times faster than argsort, so the position is packed into the low bits.
    packed = (keys << bits) | positions
    packed.sort()
    return packed >> bits, packed & ((1 << bits) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Overlap:
    """N-grams of one size in candidates and references. "Entries" are those of ``ngrams``."""

    ngrams: NGrams
    documents: Int[np.ndarray, " ngrams"]
    """Number of candidates with the n-gram in a reference."""
    candidate_entry: Int[np.ndarray, " shared"]
    """Entries of candidates whose n-gram is in one of their references."""
    reference_entries: RaggedArray
    """For each of them, the entries of those references."""


@dataclass(frozen=True, slots=True, eq=False)
class Overlaps:
    """N-grams shared by candidates and references, with each candidate placed before its references."""

    group: Int[np.ndarray, " captions"]
    """Index of the candidate that each caption is, or is a reference of."""
    candidate_row: Int[np.ndarray, " groups"]
    """Row of each candidate among the captions."""
    num_words: Int[np.ndarray, " captions"]
    """Length of each caption."""
    by_size: tuple[Overlap, ...]
    """Overlap of n-grams of 1 to ``MAX_NGRAM_SIZE`` words."""


def count_overlaps(
    candidates: RaggedArray,
    references: RaggedArray,
    reference_offsets: Int[np.ndarray, " groups_and_one"],
    num_words: int,
) -> Overlaps:
    """Count the n-grams of candidates and references together and find the shared ones."""
    group = np.repeat(np.arange(len(candidates), dtype=np.int32), np.diff(reference_offsets) + 1)
    candidate_row = reference_offsets[:-1] + np.arange(len(candidates))
    is_candidate = np.zeros(len(group), dtype=np.bool_)
    is_candidate[candidate_row] = True
    captions = _interleave(candidates, references, is_candidate)
    ngrams = count_ngrams(captions, num_words)
    return Overlaps(
        group=group,
        candidate_row=candidate_row,
        num_words=captions.lengths(),
        by_size=tuple(_find_shared(table, group, is_candidate) for table in ngrams),
    )


def _interleave(
    candidates: RaggedArray, references: RaggedArray, is_candidate: Bool[np.ndarray, " captions"]
) -> RaggedArray:
    """Put each candidate in front of its references."""
    lengths = np.empty(len(is_candidate), dtype=np.int64)
    lengths[is_candidate], lengths[~is_candidate] = candidates.lengths(), references.lengths()
    of_candidate = np.repeat(is_candidate, lengths)
    values = np.empty(len(of_candidate), dtype=np.int64)
    values[of_candidate], values[~of_candidate] = candidates.values, references.values
    return RaggedArray(values, lengths_to_offsets(lengths))


def _find_shared(
    ngrams: NGrams, group: Int[np.ndarray, " captions"], is_candidate: Bool[np.ndarray, " captions"]
) -> Overlap:
    """Find the n-grams that candidates share with their references.

    The entries of one n-gram and group are consecutive, the candidate's first if it has one, so no lookup is needed.
    """
    # An n-gram that occurs once is shared by nobody and in at most one document, which CIDEr treats as none.
    caption, ngram = ngrams.caption[: ngrams.num_repeated], ngrams.ngram[: ngrams.num_repeated]
    first = np.flatnonzero(is_run_start(ngram) | is_run_start(group[caption]))
    starts_with_candidate = is_candidate[caption[first]]
    num_references = np.diff(first, append=len(ngram)) - starts_with_candidate
    documents = np.bincount(ngram[first[num_references > 0]], minlength=len(ngrams.prefix))

    shared = np.flatnonzero(starts_with_candidate & (num_references > 0))
    entries = concat_ranges(first[shared] + 1, num_references[shared])
    return Overlap(ngrams, documents, first[shared], RaggedArray(entries, lengths_to_offsets(num_references[shared])))
