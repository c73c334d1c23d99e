"""Document frequencies of n-grams, the IDF statistics of CIDEr.

A document is a group of captions: the references of one image, or a single caption. Self-critical training counts the
training captions once and looks the counts up afterwards.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from sct.errors import InputError
from sct.metrics.arrays import RaggedArray, WordIndex
from sct.metrics.captions import CaptionSets, Pairs
from sct.metrics.ngrams import MAX_NGRAM_SIZE, NGrams, count_ngrams, is_run_start
from sct.storage.artifacts import ArtifactFormat
from sct.storage.reading import parse_json

BITS_PER_WORD = 16
MAX_WORDS = (1 << BITS_PER_WORD) - 1
FORMAT = ArtifactFormat("sct document frequencies", "write it again with DocumentFrequencies.save")


@dataclass(frozen=True, slots=True, eq=False)
class DocumentFrequencies:
    """Number of documents that contain each n-gram of 1 to 4 words; n-grams of a single document are omitted.

    CIDEr counts an unseen n-gram as seen in one document, so omitting those loses nothing and makes the table several
    times smaller. For the same reason only words of at least two documents have an id; up to 65,535 of them.

    A key packs the word ids of an n-gram into 64 bits, 16 per word, the first word lowest. Ids are stored plus one, so
    that 0 marks a missing word: ``key = sum((id[i] + 1) << (16 * i))``. As a signed integer a key of four words may be
    negative.
    """

    words: tuple[str, ...]
    """Words in order of their ids, most frequent first."""
    keys: Int[np.ndarray, " ngrams"]
    """Packed n-grams of all sizes, signed 64-bit, ascending."""
    counts: Int[np.ndarray, " ngrams"]
    """Number of documents with each n-gram, at least 2."""
    num_documents: int

    def __post_init__(self) -> None:
        """Check that the fields are consistent."""
        if len(self.words) > MAX_WORDS:
            raise InputError(
                f"got {len(self.words)} words that occur in two or more documents, expected at most {MAX_WORDS}: count "
                "fewer documents, or map rare words to one word"
            )
        if self.num_documents < 1:
            raise InputError("got no documents, expected at least one to count n-grams in")
        if np.any(self.keys[1:] <= self.keys[:-1]):
            raise InputError("got unsorted n-gram keys, expected ascending ones")
        if len(self.counts) and not 2 <= self.counts.min() <= self.counts.max() <= self.num_documents:
            raise InputError(
                f"got document counts from {self.counts.min()} to {self.counts.max()}, expected 2 to "
                f"{self.num_documents}, the number of documents"
            )

    @classmethod
    def from_references(cls, captions: Pairs | CaptionSets) -> "DocumentFrequencies":
        """Count with the references of each candidate or image as one document, the default of CIDEr.

        >>> from sct.metrics.captions import pair
        >>> counted = DocumentFrequencies.from_references(pair(["a", "b"], [["a dog", "the dog"], ["a dog runs"]]))
        >>> counted.num_documents, counted.document_count("a dog"), counted.document_count("runs")
        (2, 2, 1)
        """
        if isinstance(captions, CaptionSets):
            captions.require_references()
        return _count(captions.references, captions.reference_offsets, captions.words)

    @classmethod
    def from_captions(cls, captions: Iterable[str]) -> "DocumentFrequencies":
        """Count with each caption as a document.

        >>> DocumentFrequencies.from_captions(["a dog", "the dog"]).document_count("dog")
        2
        """
        index = WordIndex()
        ids = index.index_texts(captions)
        return _count(ids, np.arange(len(ids) + 1), index.words())

    @classmethod
    def from_words(cls, captions: Iterable[Sequence[str]]) -> "DocumentFrequencies":
        """Count with each tokenised caption as a document."""
        index = WordIndex()
        ids = index.index_words(captions)
        return _count(ids, np.arange(len(ids) + 1), index.words())

    def document_count(self, ngram: str) -> int:
        """Number of documents with a space-separated n-gram; 1 if it was not counted."""
        words = ngram.split()
        if not 1 <= len(words) <= MAX_NGRAM_SIZE or not set(words) <= set(self.words):
            return 1
        word_ids = np.array([[self.words.index(word) for word in words]])
        return int(self.lookup(pack_ngrams(word_ids))[0])

    def lookup(self, keys: Int[np.ndarray, " keys"]) -> Int[np.ndarray, " keys"]:
        """Number of documents with each packed n-gram; 1 for those not counted, as in CIDEr."""
        if not len(self.keys):
            return np.ones(len(keys), dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[rows] == keys, self.counts[rows], 1)

    def idf(self, tables: Sequence[NGrams], words: Sequence[str]) -> list[Float[np.ndarray, " ngrams"]]:
        """IDF of the n-grams of each size; ``words`` are the vocabulary of ``tables``, which has other word ids."""
        code_of = {word: number for number, word in enumerate(self.words, start=1)}
        codes = np.array([code_of.get(word, 0) for word in words], dtype=np.int64)
        weights = []
        keys, known = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.bool_)
        for position, ngrams in enumerate(tables):
            last = codes[ngrams.last_word]
            keys = keys[ngrams.prefix] | (last << (BITS_PER_WORD * position))
            known = known[ngrams.prefix] & (last > 0)
            weights.append(inverse_document_frequency(np.where(known, self.lookup(keys), 1), self.num_documents))
        return weights

    def save(self, path: Path) -> None:
        """Write a safetensors file."""
        tensors = {"keys": self.keys, "counts": self.counts.astype(np.int32)}
        metadata = {"documents": str(self.num_documents), "words": json.dumps(self.words)}
        FORMAT.save_tensors(path, tensors, metadata)

    @classmethod
    def load(cls, path: Path) -> "DocumentFrequencies":
        """Read a file written by ``save``."""
        metadata, tensors = FORMAT.load_tensors(path)
        try:
            words, documents = parse_json(metadata["words"], path), metadata["documents"]
            keys, counts = tensors["keys"], tensors["counts"]
        except KeyError as error:
            raise FORMAT.damaged(path, f"{error} is missing") from error
        if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
            raise FORMAT.damaged(path, "its words are not a list of strings")
        if not (documents.isdecimal() and len(documents) < 16):
            raise FORMAT.damaged(path, f"got {documents[:40]!r} documents")
        if (keys.dtype, counts.dtype) != (np.int64, np.int32) or keys.shape != counts.shape or keys.ndim != 1:
            raise FORMAT.damaged(
                path, f"got n-grams {keys.dtype} {keys.shape} and counts {counts.dtype} {counts.shape}"
            )
        try:
            return cls(tuple(words), keys, counts, int(documents))
        except InputError as error:
            raise FORMAT.damaged(path, error) from error


def inverse_document_frequency(
    documents: Int[np.ndarray, " ngrams"], num_documents: int
) -> Float[np.ndarray, " ngrams"]:
    """``log(num_documents / documents)``; exactly 0 for n-grams of all documents, unlike a difference of logs."""
    weights: Float[np.ndarray, " ngrams"] = np.log(num_documents / np.maximum(documents, 1))
    return weights


def pack_ngrams(word_ids: Int[np.ndarray, "ngrams size"]) -> Int[np.ndarray, " ngrams"]:
    """Pack the word ids of n-grams into 64-bit keys; an id of -1 marks a missing word."""
    keys = np.zeros(len(word_ids), dtype=np.int64)
    for position in range(word_ids.shape[1]):
        keys |= (word_ids[:, position].astype(np.int64) + 1) << (BITS_PER_WORD * position)
    return keys


def _count_documents(ngrams: NGrams, document_of: Int[np.ndarray, " captions"]) -> Int[np.ndarray, " ngrams"]:
    """Number of documents with each n-gram; the captions of a document must be consecutive."""
    new = is_run_start(ngrams.ngram) | is_run_start(document_of[ngrams.caption])
    return np.bincount(ngrams.ngram[new], minlength=len(ngrams.prefix))


def _count(
    captions: RaggedArray, offsets: Int[np.ndarray, " documents_and_one"], words: Sequence[str]
) -> DocumentFrequencies:
    """Count over documents of consecutive captions, delimited by ``offsets``."""
    document_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    kept_keys, kept_counts = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    kept_words: tuple[str, ...] = ()
    code_of_word = np.zeros(len(words), dtype=np.int64)
    keys = np.zeros(1, dtype=np.int64)
    for position, ngrams in enumerate(count_ngrams(captions, max(1, len(words)))):
        documents = _count_documents(ngrams, document_of)
        if position == 0:
            # Ids by descending frequency; a word of one document keeps code 0, and its n-grams are dropped below.
            common = np.argsort(-documents, kind="stable")[: int((documents > 1).sum())]
            kept_words = tuple(words[word] for word in ngrams.last_word[common].tolist())
            code_of_word[ngrams.last_word[common]] = np.arange(1, len(common) + 1)
            if len(common) > MAX_WORDS:
                return DocumentFrequencies(kept_words, keys[:0], keys[:0], len(offsets) - 1)
        keys = keys[ngrams.prefix] | (code_of_word[ngrams.last_word] << (BITS_PER_WORD * position))
        kept_keys.append(keys[documents > 1])
        kept_counts.append(documents[documents > 1])
    all_keys, all_counts = np.concatenate(kept_keys), np.concatenate(kept_counts)
    order = np.argsort(all_keys)
    return DocumentFrequencies(kept_words, all_keys[order], all_counts[order].astype(np.int32), len(offsets) - 1)
