"""Runs of one to four words, numbered and counted over all captions at once.

An n-gram is numbered by its first words, which are an n-gram numbered before, and its last word. So a key is two
numbers however long the n-gram is, no number of words is too many, and one sort a length, of keys that carry the place
they came from, tells everything: which n-grams there are, in which captions, and how often.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from sct.metrics.ragged import Ragged

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


def count_ngrams(captions: Ragged, num_words: int) -> tuple[NGrams, ...]:
    """Count the n-grams of one to four words; the n-grams of ``n`` words are at ``n - 1``."""
    values, ends = captions.values.astype(np.int64), captions.offsets[1:]
    row_of = np.repeat(np.arange(len(captions), dtype=np.int32), captions.lengths())
    words_left = np.repeat(ends, captions.lengths()) - np.arange(len(values))
    places = np.arange(len(values))
    prefix_at = np.zeros(len(values), dtype=np.int64)
    tables = []
    for length in range(1, LONGEST + 1):
        places = places[words_left[places] >= length]
        keys = prefix_at[places] * num_words + values[places + length - 1]
        keys, sorted_places = _sort(keys, places, len(values))
        rows = row_of[sorted_places]
        new_ngram = _changes(keys)
        new_entry = new_ngram.copy()
        new_entry[1:] |= rows[1:] != rows[:-1]
        numbers = np.cumsum(new_ngram, dtype=np.int32) - np.int32(1)
        entries = np.flatnonzero(new_entry)
        prefix, last_word = np.divmod(keys[new_ngram], num_words)
        tables.append(
            NGrams(
                ngram=numbers[entries],
                caption=rows[entries],
                count=np.diff(entries, append=len(keys)).astype(np.int32),
                prefix=prefix,
                last_word=last_word,
            )
        )
        prefix_at[sorted_places] = numbers
    return tuple(tables)


def _changes(values: Int[np.ndarray, " values"]) -> Bool[np.ndarray, " values"]:
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
