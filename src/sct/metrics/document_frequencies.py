"""In how many documents each n-gram stands, which is what CIDEr weighs n-grams by.

A document is a group of captions: the references of one image, or a single caption. Rewards in training count once
over the training captions and look the counts up from then on; the table below is what they keep.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path

import numpy as np
import safetensors.numpy
from jaxtyping import Float, Int
from safetensors import SafetensorError

from sct.errors import InputError
from sct.metrics.arrays import RaggedArray, WordIndex
from sct.metrics.captions import Pairs
from sct.metrics.ngrams import LONGEST, NGrams, changes, count_ngrams
from sct.storage.atomic import atomic_write

BITS_PER_WORD = 16
MOST_WORDS = (1 << BITS_PER_WORD) - 1
_KIND = "sct document frequencies 1"


@dataclass(frozen=True, slots=True, eq=False)
class DocumentFrequencies:
    """In how many documents each n-gram of one to four words stands, those in a single document left out.

    CIDEr counts an n-gram that it has never seen as seen in one document, so nothing is lost by leaving these out, and
    the table is several times smaller. For the same reason only words of two documents or more have a number; there
    may be 65,535 of them.

    A key packs the word numbers of an n-gram into 64 bits, 16 for each word, the first word lowest. It holds the number
    plus one, so that 0 says that there is no such word and the length of the n-gram shows:
    ``key = sum((number[i] + 1) << (16 * i))``. As a signed number a key of four words may be negative.
    """

    words: tuple[str, ...]
    """The word of each number, those in most documents first."""
    keys: Int[np.ndarray, " ngrams"]
    """The packed n-grams of all lengths, as signed 64-bit numbers in rising order."""
    counts: Int[np.ndarray, " ngrams"]
    """In how many documents each stands, at least 2."""
    num_documents: int

    def __post_init__(self) -> None:
        """Check that the parts belong together."""
        if len(self.words) > MOST_WORDS:
            raise InputError(
                f"{len(self.words)} words stand in two documents or more: a table of document frequencies holds at "
                f"most {MOST_WORDS}; count fewer documents, or map rare words to one word before"
            )
        if self.num_documents < 1:
            raise InputError("document frequencies came from no document: expected at least one")
        if np.any(self.keys[1:] <= self.keys[:-1]):
            raise InputError("keys of document frequencies must rise")
        if len(self.counts) and not 2 <= self.counts.min() <= self.counts.max() <= self.num_documents:
            raise InputError(f"counts of document frequencies must be from 2 to {self.num_documents}, the documents")

    @classmethod
    def of_references(cls, pairs: Pairs) -> "DocumentFrequencies":
        """Count with the references of each candidate as one document, as CIDEr does by default.

        >>> from sct.metrics.captions import pair
        >>> found = DocumentFrequencies.of_references(pair(["a", "b"], [["a dog", "the dog"], ["a dog runs"]]))
        >>> found.num_documents, found.documents_with("a dog"), found.documents_with("runs")
        (2, 2, 1)
        """
        return _count(pairs.references, pairs.reference_rows, pairs.words)

    @classmethod
    def of_captions(cls, captions: Iterable[str]) -> "DocumentFrequencies":
        """Count with each caption as a document of its own.

        >>> DocumentFrequencies.of_captions(["a dog", "the dog"]).documents_with("dog")
        2
        """
        numbering = WordIndex()
        numbered = numbering.texts(captions)
        return _count(numbered, np.arange(len(numbered) + 1), numbering.words())

    @classmethod
    def of_words(cls, captions: Iterable[Sequence[str]]) -> "DocumentFrequencies":
        """Count with each caption, cut into words already, as a document of its own."""
        numbering = WordIndex()
        numbered = numbering.captions(captions)
        return _count(numbered, np.arange(len(numbered) + 1), numbering.words())

    def documents_with(self, ngram: str) -> int:
        """In how many documents an n-gram stands, its words with spaces between them; 1 where it is in none."""
        words = ngram.split()
        if not 1 <= len(words) <= LONGEST or not set(words) <= set(self.words):
            return 1
        numbers = np.array([[self.words.index(word) for word in words]])
        return int(self.look_up(pack(numbers))[0])

    def look_up(self, keys: Int[np.ndarray, " keys"]) -> Int[np.ndarray, " keys"]:
        """In how many documents each packed n-gram stands; 1 where it is in none, as CIDEr has it."""
        if not len(self.keys):
            return np.ones(len(keys), dtype=np.int64)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.counts[places], 1)

    def weights(self, tables: Sequence[NGrams], words: Sequence[str]) -> list[Float[np.ndarray, " ngrams"]]:
        """Weights of the n-grams of each length, of captions whose words have other numbers than here."""
        number_of = {word: number for number, word in enumerate(self.words, start=1)}
        numbers = np.array([number_of.get(word, 0) for word in words], dtype=np.int64)
        weights = []
        keys, known = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.bool_)
        for place, ngrams in enumerate(tables):
            last = numbers[ngrams.last_word]
            keys = keys[ngrams.prefix] | (last << (BITS_PER_WORD * place))
            known = known[ngrams.prefix] & (last > 0)
            weights.append(weigh(np.where(known, self.look_up(keys), 1), self.num_documents))
        return weights

    def save(self, path: Path) -> None:
        """Write a safetensors file."""
        parts = {"keys": self.keys, "counts": self.counts.astype(np.int32)}
        metadata = {"kind": _KIND, "documents": str(self.num_documents), "words": json.dumps(self.words)}
        with atomic_write(path) as file:
            file.write(safetensors.numpy.save(parts, metadata))

    @classmethod
    def load(cls, path: Path) -> "DocumentFrequencies":
        """Read what ``save`` wrote."""
        how_to_mend = "expected a table of document frequencies; make it anew with DocumentFrequencies.save"
        try:
            with safetensors.safe_open(path, framework="numpy") as file:
                metadata = file.metadata() or {}
                if metadata.get("kind") != _KIND:
                    raise InputError(f"{path} is no table of document frequencies of this version: {how_to_mend}")
                keys, counts = file.get_tensor("keys"), file.get_tensor("counts")
            words, num_documents = tuple(json.loads(metadata["words"])), int(metadata["documents"])
        except FileNotFoundError:
            raise InputError(f"{path} does not exist: {how_to_mend}") from None
        except (SafetensorError, OSError) as error:  # the latter for a folder
            raise InputError(f"{path} is no safetensors file ({error}): {how_to_mend}") from error
        except (KeyError, TypeError, JSONDecodeError) as error:
            raise InputError(f"{path} lacks words or documents ({error}): {how_to_mend}") from error
        if len(keys) != len(counts):
            raise InputError(f"{path} holds {len(keys)} n-grams and {len(counts)} counts: {how_to_mend}")
        return cls(words, keys, counts, num_documents)


def weigh(documents: Int[np.ndarray, " ngrams"], num_documents: int) -> Float[np.ndarray, " ngrams"]:
    """Weigh n-grams: 0 for one that stands in all documents, and that exactly, which a difference of logs would not."""
    weights: Float[np.ndarray, " ngrams"] = np.log(num_documents / np.maximum(documents, 1))
    return weights


def pack(numbers: Int[np.ndarray, "ngrams length"]) -> Int[np.ndarray, " ngrams"]:
    """Pack the word numbers of n-grams into keys; a number of -1 stands for no word."""
    keys = np.zeros(len(numbers), dtype=np.int64)
    for place in range(numbers.shape[1]):
        keys |= (numbers[:, place].astype(np.int64) + 1) << (BITS_PER_WORD * place)
    return keys


def _count_documents(ngrams: NGrams, document_of: Int[np.ndarray, " captions"]) -> Int[np.ndarray, " ngrams"]:
    """In how many documents each n-gram stands; captions of one document must stand together."""
    new = changes(ngrams.ngram) | changes(document_of[ngrams.caption])
    return np.bincount(ngrams.ngram[new], minlength=len(ngrams.prefix))


def _count(
    captions: RaggedArray, rows: Int[np.ndarray, " documents_and_one"], words: Sequence[str]
) -> DocumentFrequencies:
    """Count over documents that are rows of captions each."""
    document_of = np.repeat(np.arange(len(rows) - 1), np.diff(rows))
    found_keys, found_counts = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    known: tuple[str, ...] = ()
    number_of_word = np.zeros(len(words), dtype=np.int64)
    keys = np.zeros(1, dtype=np.int64)
    for place, ngrams in enumerate(count_ngrams(captions, max(1, len(words)))):
        documents = _count_documents(ngrams, document_of)
        if place == 0:
            # The commonest words get the smallest numbers; those of one document get one past the last and never show.
            common = np.argsort(-documents, kind="stable")[: int((documents > 1).sum())]
            known = tuple(words[number] for number in ngrams.last_word[common].tolist())
            number_of_word[ngrams.last_word[common]] = np.arange(1, len(common) + 1)
            if len(common) > MOST_WORDS:
                return DocumentFrequencies(known, keys[:0], keys[:0], len(rows) - 1)
        keys = keys[ngrams.prefix] | (number_of_word[ngrams.last_word] << (BITS_PER_WORD * place))
        found_keys.append(keys[documents > 1])
        found_counts.append(documents[documents > 1])
    all_keys, all_counts = np.concatenate(found_keys), np.concatenate(found_counts)
    order = np.argsort(all_keys)
    return DocumentFrequencies(known, all_keys[order], all_counts[order].astype(np.int32), len(rows) - 1)
