"""N-grams packed into 64-bit integers, their inverse document frequencies, and repeated bigrams, in torch.

The counterpart of ``sct.metrics.ngrams`` and ``sct.metrics.document_frequencies``, which count text in numpy.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from sct.errors import InputError
from sct.language.vocabulary import UNK
from sct.metrics.ngrams import MAX_NGRAM_SIZE
from sct.training.rewards.token_sequences import TokenSequences

BITS_PER_WORD = 16
MAX_WORDS = 65_000
"""Upper bound of word ids; the codes above it are for unknown words of references."""
MAX_TIME = 2**BITS_PER_WORD - 4 - MAX_WORDS
NO_NGRAM = -1
CHUNK = 1 << 13
"""Captions counted at a time."""


def word_codes(captions: TokenSequences) -> Int[Tensor, "captions time"]:
    """Word ids plus one; 0 after the last word."""
    return (captions.words + 1).masked_fill(~captions.mask(), 0)


def reference_codes(captions: TokenSequences) -> Int[Tensor, "captions time"]:
    """Codes of references: each unknown word gets a code that no other word of its caption has.

    Two unknown words are presumably different, and a generated unknown word matches neither.
    """
    unknown_codes = MAX_WORDS + 1 + torch.arange(captions.words.shape[1], device=captions.words.device)
    codes = torch.where(captions.words == UNK, unknown_codes, captions.words + 1)
    return codes.masked_fill(~captions.mask(), 0)


def pack_ngrams(codes: Int[Tensor, "*captions time"], missing: int = NO_NGRAM) -> Int[Tensor, "*captions sizes time"]:
    """Pack the 1 to 4 words from each position on into integers; ``missing`` where the caption ends before.

    Packed n-grams of all sizes are distinct: a word takes 16 bits and its code is not 0.
    """
    windows = _windows(codes.long(), MAX_NGRAM_SIZE).transpose(-1, -2).contiguous()
    shifts = BITS_PER_WORD * torch.arange(MAX_NGRAM_SIZE, device=codes.device)[:, None]
    return (windows << shifts).cumsum(-2).masked_fill(windows == 0, missing)


def check_word_ids(captions: TokenSequences, limit: int = MAX_WORDS) -> None:
    """Raise if an id is out of range; synchronises with the device, so it is for preparation only."""
    if captions.words.shape[1] > MAX_TIME:
        raise InputError(f"got captions of {captions.words.shape[1]} words, expected at most {MAX_TIME}: truncate them")
    ids = captions.words[captions.mask()]
    bad = ids[(ids < 0) | (ids >= limit)]
    if len(bad):
        raise InputError(f"got the word id {int(bad[0])}, expected 0 to {limit - 1}: use the vocabulary of the tables")


def check_vocabulary_size(num_words: int) -> None:
    """Raise if there are more words, of the captioner and of all references, than an n-gram has bits for.

    >>> check_vocabulary_size(65_000)
    """
    if num_words > MAX_WORDS:
        raise InputError(
            f"got {num_words:,} distinct words in the captions of the dataset, expected at most {MAX_WORDS:,} for "
            'self-critical training: replace rare words, or train with objective.stage = "cross_entropy"'
        )


@dataclass(frozen=True, slots=True, eq=False)
class InverseDocumentFrequencies:
    """IDF table of CIDEr: log(number of documents / documents that contain the n-gram).

    CIDEr counts an unseen n-gram as seen in one document, so only n-grams of two or more documents are listed.
    """

    ngrams: Int[Tensor, " listed"]
    """Packed, ascending; the last entry is a sentinel above all n-grams."""
    idf: Float[Tensor, " listed"]
    default: Float[Tensor, ""]
    """IDF of all other n-grams."""

    @classmethod
    def from_counts(
        cls, ngrams: Int[Tensor, " ngrams"], counts: Int[Tensor, " ngrams"], num_documents: int
    ) -> "InverseDocumentFrequencies":
        """Build the table from packed n-grams and the number of documents that contain each."""
        if counts.numel() and int(counts.max()) > num_documents:
            raise InputError(
                f"got an n-gram in {int(counts.max())} of {num_documents} documents, expected at most all of them: "
                "count each document once"
            )
        ngrams, order = ngrams[counts > 1].sort()
        logs = counts[counts > 1][order].double().log()
        sentinel = torch.tensor([torch.iinfo(torch.int64).max], device=ngrams.device)
        idf = torch.cat([math.log(num_documents) - logs, logs.new_zeros(1)])
        default = torch.tensor(math.log(num_documents), device=ngrams.device)
        return cls(torch.cat([ngrams, sentinel]), idf.float(), default)

    @classmethod
    def from_captions(
        cls, captions: TokenSequences, documents: Int[Tensor, " captions"] | None = None
    ) -> "InverseDocumentFrequencies":
        """Count captions; ``documents`` gives the captions of one image the same number, default: one each.

        The authors' code uses captions as documents; the official metric and the paper's tables use images.
        """
        if not len(captions.lengths):
            raise InputError("got no caption, expected at least one document to count n-grams in")
        check_word_ids(captions)
        if documents is None:
            documents = torch.arange(len(captions.lengths), device=captions.words.device)
        documents, order = documents.sort()
        captions = TokenSequences(captions.words[order], captions.lengths[order])
        counted = [_count_documents(*occurrences) for occurrences in _occurrences(captions, documents)]
        ngrams, counts = (torch.cat(parts) for parts in zip(*counted, strict=True))
        return cls.from_counts(ngrams, counts, len(documents.unique()))

    def to(self, device: torch.device | str) -> "InverseDocumentFrequencies":
        """Copy to a device."""
        return InverseDocumentFrequencies(self.ngrams.to(device), self.idf.to(device), self.default.to(device))

    def look_up(self, ngrams: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """IDF of packed n-grams; 0 for ``NO_NGRAM``."""
        rows = torch.searchsorted(self.ngrams, ngrams)
        is_listed = self.ngrams[rows] == ngrams
        return torch.where(is_listed, self.idf[rows], self.default) * (ngrams != NO_NGRAM)


def _occurrences(
    captions: TokenSequences, documents: Int[Tensor, " captions"]
) -> list[tuple[Int[Tensor, " occurrences"], Int[Tensor, " occurrences"]]]:
    """For each n-gram size, all occurrences and the documents they are in."""
    found: list[list[tuple[Tensor, Tensor]]] = [[] for _ in range(MAX_NGRAM_SIZE)]
    for start in range(0, len(documents), CHUNK):
        rows = slice(start, start + CHUNK)
        chunk = TokenSequences(captions.words[rows], captions.lengths[rows])
        for size, packed in enumerate(pack_ngrams(word_codes(chunk)).unbind(1)):
            known = (packed != NO_NGRAM) & ~_has_unknown(chunk, size + 1)
            found[size].append((packed[known], documents[rows, None].expand_as(packed)[known]))
    joined = [[torch.cat(parts) for parts in zip(*chunks, strict=True)] for chunks in found]
    return [(ngrams, owners) for ngrams, owners in joined]


def _count_documents(
    ngrams: Int[Tensor, " occurrences"], documents: Int[Tensor, " occurrences"]
) -> tuple[Int[Tensor, " ngrams"], Int[Tensor, " ngrams"]]:
    """Distinct n-grams with their number of documents; ``documents`` must be ascending."""
    # A stable sort keeps the documents of an n-gram ascending, so its repetitions are adjacent.
    ngrams, order = ngrams.sort(stable=True)
    documents = documents[order]
    is_new = torch.ones_like(ngrams, dtype=torch.bool)
    is_new[1:] = (ngrams[1:] != ngrams[:-1]) | (documents[1:] != documents[:-1])
    distinct, counts = torch.unique_consecutive(ngrams[is_new], return_counts=True)
    return distinct, counts


def _has_unknown(captions: TokenSequences, size: int) -> Bool[Tensor, "captions time"]:
    return _windows(captions.words == UNK, size).any(-1)


def _windows(values: Shaped[Tensor, "*captions time"], size: int) -> Shaped[Tensor, "*captions time {size}"]:
    """Sliding windows from each position on, zero-padded at the end."""
    # One more than the last window needs, for captions of length 0.
    return torch.nn.functional.pad(values, (0, size)).unfold(-1, size, 1)[..., :-1, :]


def repeated_bigrams(captions: TokenSequences) -> Float[Tensor, " captions"]:
    """Number of bigrams of each caption that occurred before in it.

    >>> repeated_bigrams(TokenSequences.from_lists([[4, 5, 6, 4, 5], [4, 4, 4]])).tolist()
    [1.0, 1.0]
    """
    time = captions.words.shape[1]
    earlier = torch.ones(time, time, dtype=torch.bool, device=captions.words.device).tril(-1)
    counts = [captions.words.new_zeros(0, dtype=torch.float32)]
    for start in range(0, len(captions.lengths), CHUNK):
        rows = slice(start, start + CHUNK)
        bigrams = pack_ngrams(word_codes(TokenSequences(captions.words[rows], captions.lengths[rows])))[:, 1]
        is_repeated = ((bigrams[:, :, None] == bigrams[:, None, :]) & earlier).any(-1) & (bigrams != NO_NGRAM)
        counts.append(is_repeated.sum(-1, dtype=torch.float32))
    return torch.cat(counts)
