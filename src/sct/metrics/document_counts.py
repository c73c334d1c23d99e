"""Number of documents with each n-gram, for vocabularies of any size: counting, merging, lookup.

An n-gram is keyed by the row of its prefix, an n-gram of one word less, and its last word, so that a key fits 64 bits
whatever the number of words. Rows depend only on what was counted, not on its order: counts of parts merge to exactly
the arrays of the whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Int64

from sct.errors import InputError
from sct.metrics.arrays import RaggedArray
from sct.metrics.ngrams import MAX_NGRAM_SIZE, NGrams, count_ngrams, is_run_start

MISSING = -1
"""Row of an n-gram that is not in the table."""


@dataclass(frozen=True, slots=True, eq=False)
class DocumentCounts:
    """Number of documents with each n-gram of 1 to 4 words."""

    words: tuple[str, ...]
    """Words in order of their ids, which are the rows of single words: by falling count, ties in alphabetical order."""
    keys: tuple[Int64[np.ndarray, " _"], ...]
    """Keys of the n-grams of 2, 3 and 4 words, ascending: ``row of the prefix * len(words) + id of the last word``."""
    counts: tuple[Int[np.ndarray, " _"], ...]
    """Number of documents with each n-gram of 1, 2, 3 and 4 words."""
    num_documents: int

    @property
    def num_ngrams(self) -> int:
        """Number of n-grams of all sizes."""
        return sum(map(len, self.counts))

    def find_damage(self, min_count: int) -> str | None:
        """First inconsistency of counts that somebody may have altered; None if there is none.

        A part, with a ``min_count`` of 1, may have no documents.
        """
        if self.num_documents < min(1, min_count - 1):
            return "got no documents, expected at least one to count n-grams in"
        return self._find_wrong_size() or self._find_wrong_key() or self._find_wrong_count(min_count)

    def _find_wrong_size(self) -> str | None:
        if len(self.keys) != MAX_NGRAM_SIZE - 1 or len(self.counts) != MAX_NGRAM_SIZE:
            return f"got n-grams of {len(self.counts)} sizes, expected {MAX_NGRAM_SIZE}"
        if len(set(self.words)) != len(self.words):
            return "got a word twice, expected each word once"
        num_rows = [len(self.words), *map(len, self.keys)]
        if [*map(len, self.counts)] != num_rows:
            return f"got counts of {[*map(len, self.counts)]} n-grams, expected {num_rows}"
        return None

    def _find_wrong_key(self) -> str | None:
        for num_prefixes, keys in zip(map(len, self.counts), self.keys, strict=False):
            _check_key_space(num_prefixes, len(self.words))
            if np.any(keys[1:] <= keys[:-1]):
                return "got unsorted n-gram keys, expected ascending ones"
            if len(keys) and not 0 <= keys[0] <= keys[-1] < num_prefixes * len(self.words):
                return f"got n-gram keys from {keys[0]} to {keys[-1]}, expected prefixes and words of the table"
        return None

    def _find_wrong_count(self, min_count: int) -> str | None:
        lowest = min((int(counts.min()) for counts in self.counts if len(counts)), default=min_count)
        highest = max((int(counts.max()) for counts in self.counts if len(counts)), default=min_count)
        if self.num_ngrams and not min_count <= lowest <= highest <= self.num_documents:
            return (
                f"got document counts from {lowest} to {highest}, expected {min_count} to {self.num_documents}, the "
                "number of documents"
            )
        return None

    def find_rows(
        self, size: int, prefix: Int[np.ndarray, " ngrams"], last_word: Int[np.ndarray, " ngrams"]
    ) -> Int64[np.ndarray, " ngrams"]:
        """Rows of n-grams by the rows of their prefixes and the ids of their last words; any may be MISSING."""
        if size == 1:
            return last_word.astype(np.int64)
        keys = self.keys[size - 2]
        if not len(keys):
            return np.full(len(prefix), MISSING)
        query = prefix.astype(np.int64) * len(self.words) + last_word
        rows = np.minimum(np.searchsorted(keys, query), len(keys) - 1)
        return np.where((prefix != MISSING) & (last_word != MISSING) & (keys[rows] == query), rows, MISSING)

    def count_of_rows(self, size: int, rows: Int[np.ndarray, " ngrams"]) -> Int[np.ndarray, " ngrams"]:
        """Number of documents with each n-gram, by its row; 1 for MISSING, as in CIDEr."""
        counts = self.counts[size - 1]
        return np.where(rows == MISSING, 1, counts[rows]) if len(counts) else np.ones(len(rows), np.int64)

    def ngram_words(self) -> list[Int64[np.ndarray, "_ _"]]:
        """Word ids of the n-grams of each size, in order of their rows."""
        tables = [np.arange(len(self.words))[:, None]]
        for keys in self.keys:
            prefix, last_word = np.divmod(keys, max(1, len(self.words)))
            tables.append(np.concatenate([tables[-1][prefix], last_word[:, None]], axis=1))
        return tables

    def drop_singletons(self) -> "DocumentCounts":
        """Counts of the n-grams of two or more documents."""
        kept_words = int((self.counts[0] > 1).sum())  # counts of words fall
        rows = np.where(self.counts[0] > 1, np.arange(len(self.words)), MISSING)
        keys, counts = [], [self.counts[0][:kept_words]]
        for own_keys, own_counts in zip(self.keys, self.counts[1:], strict=True):
            prefix, last_word = np.divmod(own_keys, max(1, len(self.words)))
            is_kept = own_counts > 1
            # An n-gram of two documents has a prefix and words of two documents; the order of the keys stays.
            keys.append(rows[prefix[is_kept]] * kept_words + last_word[is_kept])
            counts.append(own_counts[is_kept])
            rows = np.where(is_kept, np.cumsum(is_kept) - 1, MISSING)
        return DocumentCounts(self.words[:kept_words], tuple(keys), tuple(counts), self.num_documents)


def count_documents(
    captions: RaggedArray,
    offsets: Int[np.ndarray, " documents_and_one"],
    words: Sequence[str],
    *,
    min_count: int,
) -> DocumentCounts:
    """Count n-grams of documents of consecutive captions, delimited by ``offsets``; keep those of enough documents."""
    document_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    num_documents = len(offsets) - 1
    kept_words: tuple[str, ...] = ()
    word_ids = np.full(len(words), MISSING)
    keys: list[np.ndarray] = []
    counts: list[np.ndarray] = []
    rows = np.zeros(1, np.int64)
    for position, ngrams in enumerate(count_ngrams(captions, max(1, len(words)))):
        documents = _count_ngrams_documents(ngrams, document_of)
        is_kept = documents >= min_count
        # The prefix and the words of an n-gram are in at least as many documents.
        last_words, found = ngrams.last_word[is_kept], documents[is_kept]
        if position == 0:
            order = rank_words([words[word] for word in last_words.tolist()], found)
            kept_words = tuple(words[word] for word in last_words[order].tolist())
            word_ids[last_words[order]] = np.arange(len(order))
        else:
            _check_key_space(len(counts[-1]), len(kept_words))
            own_keys = rows[ngrams.prefix[is_kept]] * len(kept_words) + word_ids[last_words]
            order = np.argsort(own_keys)
            keys.append(own_keys[order])
        counts.append(found[order].astype(_count_dtype(num_documents)))
        rows = np.full(len(documents), MISSING)
        rows[np.flatnonzero(is_kept)[order]] = np.arange(len(order))
    return DocumentCounts(kept_words, tuple(keys), tuple(counts), num_documents)


def merge_counts(parts: Sequence[DocumentCounts]) -> DocumentCounts:
    """Add the counts of parts, each with all n-grams of its documents."""
    num_documents = sum(part.num_documents for part in parts)
    dtype = _count_dtype(num_documents)
    index = {word: number for number, word in enumerate(dict.fromkeys(word for part in parts for word in part.words))}
    totals = np.zeros(len(index), dtype)
    numbers = [np.array([index[word] for word in part.words], np.int64) for part in parts]
    for part, own_numbers in zip(parts, numbers, strict=True):
        totals[own_numbers] += part.counts[0]
    order = rank_words(list(index), totals)
    ids = np.empty(len(order), np.int64)
    ids[order] = np.arange(len(order))
    words = [ids[own_numbers] for own_numbers in numbers]
    rows, keys, counts = words, [], [totals[order]]
    for size in range(2, MAX_NGRAM_SIZE + 1):
        _check_key_space(len(counts[-1]), len(index))
        moved = []
        for part, own_rows, own_words in zip(parts, rows, words, strict=True):
            prefix, last_word = np.divmod(part.keys[size - 2], max(1, len(part.words)))
            moved.append(own_rows[prefix] * len(index) + own_words[last_word])
        all_keys, all_counts = np.concatenate(moved), np.concatenate([part.counts[size - 1] for part in parts])
        by_key = np.argsort(all_keys, kind="stable")
        all_keys = all_keys[by_key]
        is_first = is_run_start(all_keys)
        keys.append(all_keys[is_first])
        counts.append(np.add.reduceat(all_counts[by_key], np.flatnonzero(is_first), dtype=dtype))
        merged_rows = np.empty(len(all_keys), np.int64)
        merged_rows[by_key] = np.cumsum(is_first) - 1
        rows = np.split(merged_rows, np.cumsum([len(own_keys) for own_keys in moved])[:-1])
    return DocumentCounts(
        tuple(list(index)[word] for word in order.tolist()), tuple(keys), tuple(counts), num_documents
    )


def rank_words(words: Sequence[str], counts: Int[np.ndarray, " words"]) -> Int64[np.ndarray, " words"]:
    """Order of words by falling count, ties in alphabetical order.

    >>> rank_words(["b", "c", "a"], np.array([1, 2, 1])).tolist()
    [1, 2, 0]
    """
    alphabetical = np.array(sorted(range(len(words)), key=words.__getitem__), np.int64)
    return alphabetical[np.argsort(-counts[alphabetical], kind="stable")]


def _count_ngrams_documents(ngrams: NGrams, document_of: Int[np.ndarray, " captions"]) -> Int[np.ndarray, " ngrams"]:
    """Number of documents with each n-gram; the captions of a document must be consecutive."""
    new = is_run_start(ngrams.ngram) | is_run_start(document_of[ngrams.caption])
    return np.bincount(ngrams.ngram[new], minlength=len(ngrams.prefix))


def _count_dtype(num_documents: int) -> type[np.signedinteger]:
    return np.int32 if num_documents <= np.iinfo(np.int32).max else np.int64


def _check_key_space(num_prefixes: int, num_words: int) -> None:
    """Raise if keys would not fit 64 bits: billions of n-grams and words."""
    if num_prefixes * num_words >= 1 << 63:
        raise InputError(
            f"got {num_prefixes:,} n-grams and {num_words:,} words, expected a product below 2**63: map rare words to "
            "one word"
        )
