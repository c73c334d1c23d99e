"""CIDEr-D reward in torch: the metric on token ids, on the device.

The pair with ``sct.metrics.cider``, which scores text in numpy, is deliberate; tests hold them together.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.language.vocabulary import Vocabulary
from sct.metrics.document_frequencies import DocumentFrequencies
from sct.metrics.ngrams import MAX_NGRAM_SIZE
from sct.training.rewards.ngrams import (
    BITS_PER_WORD,
    CHUNK,
    MAX_WORDS,
    InverseDocumentFrequencies,
    check_word_ids,
    pack_ngrams,
    reference_codes,
    word_codes,
)
from sct.training.rewards.token_sequences import TokenSequences, mean_over_references

SCALE = 10.0
SIGMA = 6.0
"""Standard deviation of the Gaussian length penalty."""
NO_REFERENCE_NGRAM = -2
"""Differs from the candidates' ``NO_NGRAM``, so that missing n-grams do not match."""


@dataclass(frozen=True, slots=True, eq=False)
class CiderReferences:
    """Reference captions, with everything of CIDEr-D that depends on them alone."""

    codes: Int[Tensor, "captions time"]
    lengths: Int[Tensor, " captions"]
    norms: Float[Tensor, "captions sizes"]


@dataclass(frozen=True, slots=True, eq=False)
class CiderReward:
    """CIDEr-D of captions, from 0 to 10.

    N-grams are counted by comparing all pairs of the two captions, which are short enough that no sort is needed.
    """

    idf: InverseDocumentFrequencies

    @classmethod
    def from_document_frequencies(cls, frequencies: DocumentFrequencies, vocabulary: Vocabulary) -> "CiderReward":
        """Build from the metric's table, for the ids of the dataset's full vocabulary.

        N-grams with a word outside the vocabulary are dropped, since no caption can contain them.
        """
        ids = np.array([vocabulary.ids.get(word, MAX_WORDS) for word in frequencies.words], dtype=np.int64)
        codes = np.where(ids < MAX_WORDS, ids + 1, -1)
        packed, counted = [], []
        for words, num_documents in zip(frequencies.table.ngram_words(), frequencies.table.counts, strict=True):
            ngram_codes = codes[words]
            kept = (ngram_codes >= 0).all(1)
            shifts = np.arange(words.shape[1]) * BITS_PER_WORD
            packed.append(np.bitwise_or.reduce(ngram_codes[kept] << shifts, axis=1))
            counted.append(num_documents[kept].astype(np.int64))
        ngrams, counts = (torch.from_numpy(np.concatenate(parts)) for parts in (packed, counted))
        return cls(InverseDocumentFrequencies.from_counts(ngrams, counts, frequencies.num_documents))

    def to(self, device: torch.device | str) -> "CiderReward":
        """Copy to a device."""
        return CiderReward(self.idf.to(device))

    def prepare(self, references: TokenSequences) -> CiderReferences:
        """Prepare references once for all steps, on their device.

        An unknown word of a reference matches nothing, not even another unknown word.
        """
        check_word_ids(references)
        norms = [references.words.new_zeros(0, MAX_NGRAM_SIZE, dtype=torch.float32)]
        codes = [references.words.new_zeros(0, references.words.shape[1], dtype=torch.int32)]
        for start in range(0, len(references.lengths), CHUNK):
            rows = slice(start, start + CHUNK)
            chunk = reference_codes(TokenSequences(references.words[rows], references.lengths[rows]))
            ngrams = pack_ngrams(chunk)
            norms.append(_norm(_count_matches(ngrams, ngrams), self.idf.look_up(ngrams).square()))
            codes.append(chunk.int())
        return CiderReferences(torch.cat(codes), references.lengths, torch.cat(norms))

    def __call__(
        self,
        candidates: TokenSequences,
        references: CiderReferences,
        rows: Int[Tensor, "candidates references"],
        present: Bool[Tensor, "candidates references"] | None = None,
    ) -> Float[Tensor, " candidates"]:
        """Score each candidate against the references in ``rows``, in which a row may repeat.

        ``present`` marks the references that exist, at least one per candidate.
        """
        ngrams = pack_ngrams(word_codes(candidates))
        counts = _count_matches(ngrams, ngrams)
        squared_idf = self.idf.look_up(ngrams).square()
        reference_ngrams = pack_ngrams(references.codes[rows], missing=NO_REFERENCE_NGRAM)
        matches = _count_matches(ngrams[:, None], reference_ngrams)
        # The sum over distinct n-grams as a sum over occurrences, each divided by the number of its repetitions.
        products = torch.minimum(counts[:, None], matches) * matches * (squared_idf / counts)[:, None]
        norms = _norm(counts, squared_idf)[:, None] * references.norms[rows]
        similarity = products.sum(-1) / norms.clamp_min(torch.finfo(norms.dtype).tiny)
        # The official metric's length is the number of bigrams.
        difference = (candidates.lengths - 1).clamp_min(0)[:, None] - (references.lengths[rows] - 1).clamp_min(0)
        penalty = (difference.square() * (-0.5 / SIGMA**2)).exp()
        return mean_over_references(SCALE * penalty * similarity.mean(-1), present)


def _count_matches(
    ngrams: Int[Tensor, "*captions sizes time"], others: Int[Tensor, "*more_captions sizes other_time"]
) -> Float[Tensor, "*broadcast sizes time"]:
    """How often each n-gram is among the others."""
    return (ngrams[..., :, None] == others[..., None, :]).sum(-1, dtype=torch.float32)


def _norm(
    counts: Float[Tensor, "*captions sizes time"], squared_idf: Float[Tensor, "*captions sizes time"]
) -> Float[Tensor, "*captions sizes"]:
    """Norm of the TF-IDF vector, from values per occurrence."""
    return (counts * squared_idf).sum(-1).sqrt()
