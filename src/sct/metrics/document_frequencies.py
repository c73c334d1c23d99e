"""Document frequencies of n-grams, the IDF statistics of CIDEr.

A document is a group of captions: the references of one image, or a single caption. Self-critical training counts the
training captions once and looks the counts up afterwards. Parts of a corpus are counted as
``PartialDocumentFrequencies``, which keep what a merge needs.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from sct.errors import InputError
from sct.metrics.arrays import WordIndex
from sct.metrics.captions import CaptionSets, Pairs
from sct.metrics.document_counts import MISSING, DocumentCounts, count_documents, merge_counts
from sct.metrics.ngrams import MAX_NGRAM_SIZE, NGrams
from sct.storage.artifacts import ArtifactFormat
from sct.storage.reading import parse_json

FORMAT = ArtifactFormat("sct document frequencies", "write it again with DocumentFrequencies.save", version=2)
PARTIAL_FORMAT = ArtifactFormat(
    "sct partial document frequencies", "write it again with PartialDocumentFrequencies.save"
)


@dataclass(frozen=True, slots=True, eq=False)
class DocumentFrequencies:
    """Number of documents that contain each n-gram of 1 to 4 words; n-grams of a single document are omitted.

    CIDEr counts an unseen n-gram as seen in one document, so omitting those loses nothing and makes the table several
    times smaller. Equal documents in another order give equal arrays.
    """

    table: DocumentCounts

    def __post_init__(self) -> None:
        """Check that the fields are consistent."""
        if damage := self.table.find_damage(min_count=2):
            raise InputError(damage)

    @property
    def words(self) -> tuple[str, ...]:
        """Words of two or more documents in order of their ids, most frequent first."""
        return self.table.words

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return self.table.num_documents

    @classmethod
    def from_references(cls, captions: Pairs | CaptionSets) -> "DocumentFrequencies":
        """Count with the references of each candidate or image as one document, the default of CIDEr.

        >>> from sct.metrics.captions import pair
        >>> counted = DocumentFrequencies.from_references(pair(["a", "b"], [["a dog", "the dog"], ["a dog runs"]]))
        >>> counted.num_documents, counted.document_count("a dog"), counted.document_count("runs")
        (2, 2, 1)
        """
        return cls(_count_references(captions, min_count=2))

    @classmethod
    def from_captions(cls, captions: Iterable[str]) -> "DocumentFrequencies":
        """Count with each caption as a document.

        >>> DocumentFrequencies.from_captions(["a dog", "the dog"]).document_count("dog")
        2
        """
        return cls(_count_captions(captions, min_count=2))

    @classmethod
    def from_words(cls, captions: Iterable[Sequence[str]]) -> "DocumentFrequencies":
        """Count with each tokenised caption as a document."""
        return cls(_count_words(captions, min_count=2))

    def document_count(self, ngram: str) -> int:
        """Number of documents with a space-separated n-gram; 1 if it was not counted."""
        words = ngram.split()
        if not 1 <= len(words) <= MAX_NGRAM_SIZE or not set(words) <= set(self.words):
            return 1
        rows = np.zeros(1, np.int64)
        for size, word in enumerate(words, start=1):
            rows = self.table.find_rows(size, rows, np.array([self.words.index(word)]))
        return int(self.table.count_of_rows(len(words), rows)[0])

    def idf(self, tables: Sequence[NGrams], words: Sequence[str]) -> list[Float[np.ndarray, " ngrams"]]:
        """IDF of the n-grams of each size; ``words`` are the vocabulary of ``tables``, which has other word ids."""
        id_of = {word: number for number, word in enumerate(self.words)}
        ids = np.array([id_of.get(word, MISSING) for word in words], dtype=np.int64)
        weights = []
        rows = np.zeros(1, np.int64)
        for size, ngrams in enumerate(tables, start=1):
            rows = self.table.find_rows(size, rows[ngrams.prefix], ids[ngrams.last_word])
            weights.append(inverse_document_frequency(self.table.count_of_rows(size, rows), self.num_documents))
        return weights

    def save(self, path: Path) -> None:
        """Write a safetensors file."""
        _save(self.table, path, FORMAT)

    @classmethod
    def load(cls, path: Path) -> "DocumentFrequencies":
        """Read a file written by ``save``."""
        return cls(_load(path, FORMAT, min_count=2))


@dataclass(frozen=True, slots=True, eq=False)
class PartialDocumentFrequencies:
    """Document frequencies of a part of a corpus, with the n-grams of a single document, which may be in other parts.

    A document must not be divided between parts. The order and grouping of merges do not matter, and the result equals
    that of counting everything at once, to the last bit.

    >>> parts = [PartialDocumentFrequencies.from_captions([text]) for text in ("a dog", "a cat", "the dog")]
    >>> merged = PartialDocumentFrequencies.merge(parts).finish()
    >>> merged.num_documents, merged.words, merged.document_count("dog")
    (3, ('a', 'dog'), 2)
    """

    table: DocumentCounts

    def __post_init__(self) -> None:
        """Check that the fields are consistent."""
        if damage := self.table.find_damage(min_count=1):
            raise InputError(damage)

    @classmethod
    def from_references(cls, captions: Pairs | CaptionSets) -> "PartialDocumentFrequencies":
        """Count with the references of each candidate or image as one document, the default of CIDEr."""
        return cls(_count_references(captions, min_count=1))

    @classmethod
    def from_captions(cls, captions: Iterable[str]) -> "PartialDocumentFrequencies":
        """Count with each caption as a document."""
        return cls(_count_captions(captions, min_count=1))

    @classmethod
    def from_words(cls, captions: Iterable[Sequence[str]]) -> "PartialDocumentFrequencies":
        """Count with each tokenised caption as a document."""
        return cls(_count_words(captions, min_count=1))

    @classmethod
    def merge(cls, parts: Iterable["PartialDocumentFrequencies"]) -> "PartialDocumentFrequencies":
        """Add up parts, which may come one by one from files: only merged ones are kept in memory."""
        merged: list[DocumentCounts] = []
        for part in parts:
            merged.append(part.table)
            # Tables of about one size, as in merge sort: each n-gram is moved only log(parts) times.
            while len(merged) > 1 and merged[-2].num_ngrams <= 2 * merged[-1].num_ngrams:
                merged[-2:] = [merge_counts(merged[-2:])]
        if not merged:
            raise InputError("got no document frequencies, expected at least one part to merge")
        return cls(merge_counts(merged) if len(merged) > 1 else merged[0])

    def finish(self) -> DocumentFrequencies:
        """Return the document frequencies of all documents so far."""
        return DocumentFrequencies(self.table.drop_singletons())

    def save(self, path: Path) -> None:
        """Write a safetensors file."""
        _save(self.table, path, PARTIAL_FORMAT)

    @classmethod
    def load(cls, path: Path) -> "PartialDocumentFrequencies":
        """Read a file written by ``save``."""
        return cls(_load(path, PARTIAL_FORMAT, min_count=1))


def inverse_document_frequency(
    documents: Int[np.ndarray, " ngrams"], num_documents: int
) -> Float[np.ndarray, " ngrams"]:
    """``log(num_documents / documents)``; exactly 0 for n-grams of all documents, unlike a difference of logs."""
    weights: Float[np.ndarray, " ngrams"] = np.log(num_documents / np.maximum(documents, 1))
    return weights


def _count_references(captions: Pairs | CaptionSets, *, min_count: int) -> DocumentCounts:
    if isinstance(captions, CaptionSets):
        captions.require_references()
    return count_documents(captions.references, captions.reference_offsets, captions.words, min_count=min_count)


def _count_captions(captions: Iterable[str], *, min_count: int) -> DocumentCounts:
    index = WordIndex()
    ids = index.index_texts(captions)
    return count_documents(ids, np.arange(len(ids) + 1), index.words(), min_count=min_count)


def _count_words(captions: Iterable[Sequence[str]], *, min_count: int) -> DocumentCounts:
    index = WordIndex()
    ids = index.index_words(captions)
    return count_documents(ids, np.arange(len(ids) + 1), index.words(), min_count=min_count)


def _save(table: DocumentCounts, path: Path, artifact: ArtifactFormat) -> None:
    tensors = {f"counts.{size}": counts for size, counts in enumerate(table.counts, start=1)}
    tensors |= {f"keys.{size}": keys for size, keys in enumerate(table.keys, start=2)}
    # Not in the metadata, of which safetensors allows 100 MB.
    tensors["words"] = np.frombuffer(json.dumps(table.words).encode("ascii"), np.uint8)
    artifact.save_tensors(path, tensors, {"documents": str(table.num_documents)})


def _load(path: Path, artifact: ArtifactFormat, *, min_count: int) -> DocumentCounts:
    metadata, tensors = artifact.load_tensors(path)
    key_names, count_names = [f"keys.{size}" for size in (2, 3, 4)], [f"counts.{size}" for size in (1, 2, 3, 4)]
    if missing := {"words", *key_names, *count_names} - tensors.keys():
        raise artifact.damaged(path, f"it has no {min(missing)}")
    documents = metadata.get("documents", "")
    if not (documents.isdecimal() and documents.isascii() and len(documents) < 16):
        raise artifact.damaged(path, f"got {documents[:40]!r} documents")
    types = {name: (np.int64,) if name in key_names else (np.int32, np.int64) for name in (*key_names, *count_names)}
    for name, dtypes in {**types, "words": (np.uint8,)}.items():
        if tensors[name].dtype not in dtypes or tensors[name].ndim != 1:
            raise artifact.damaged(path, f"{name} is {tensors[name].dtype} {tensors[name].shape}")
    words = parse_json(tensors["words"].tobytes(), path)
    if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
        raise artifact.damaged(path, "its words are not a list of strings")
    keys, counts = (tuple(tensors[name] for name in names) for names in (key_names, count_names))
    table = DocumentCounts(tuple(words), keys, counts, int(documents))
    if damage := table.find_damage(min_count):
        raise artifact.damaged(path, damage)
    return table
