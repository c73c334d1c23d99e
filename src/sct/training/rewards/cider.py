"""CIDEr-D as a reward: the metric itself, computed where the captions are, without text and without waiting."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.training.rewards.ngrams import (
    CAPTIONS_AT_ONCE,
    LONGEST,
    NgramWeights,
    codes,
    pack_ngrams,
    reference_codes,
    refuse_bad_ids,
)
from sct.training.rewards.token_sequences import TokenSequences, mean_over_references

SCALE = 10.0
LENGTH_DEVIATION = 6.0
NO_REFERENCE_NGRAM = -2
"""Unlike the mark of a missing n-gram in a candidate, so that the two never match."""


@dataclass(frozen=True, slots=True, eq=False)
class CiderReferences:
    """Reference captions on the device, with all of CIDEr-D that depends on them alone."""

    codes: Int[Tensor, "captions time"]
    lengths: Int[Tensor, " captions"]
    norms: Float[Tensor, "captions sizes"]


@dataclass(frozen=True, slots=True, eq=False)
class CiderReward:
    """CIDEr-D of captions, 0 to 10.

    Each n-gram is counted by comparing it with all others of the two captions: they are so few that nothing needs to
    be sorted, and only its weight is looked up in a table.
    """

    weights: NgramWeights

    def to(self, device: torch.device | str) -> "CiderReward":
        """The same on another device."""
        return CiderReward(self.weights.to(device))

    def prepare(self, references: TokenSequences) -> CiderReferences:
        """Prepare references once for all steps, on the device where they are.

        An unknown word in them matches nothing, not even another one.
        """
        refuse_bad_ids(references)
        norms = [references.words.new_zeros(0, LONGEST, dtype=torch.float32)]
        parts = [references.words.new_zeros(0, references.words.shape[1], dtype=torch.int32)]
        for start in range(0, len(references.lengths), CAPTIONS_AT_ONCE):
            rows = slice(start, start + CAPTIONS_AT_ONCE)
            part = reference_codes(TokenSequences(references.words[rows], references.lengths[rows]))
            ngrams = pack_ngrams(part)
            norms.append(_norm(_matches(ngrams, ngrams), self.weights.look_up(ngrams).square()))
            parts.append(part.int())
        return CiderReferences(torch.cat(parts), references.lengths, torch.cat(norms))

    def __call__(
        self,
        candidates: TokenSequences,
        references: CiderReferences,
        rows: Int[Tensor, "candidates references"],
        present: Bool[Tensor, "candidates references"] | None = None,
    ) -> Float[Tensor, " candidates"]:
        """Score each candidate by the references in ``rows``, which may name a row as often as it has samples.

        ``present`` marks the references that count, at least one for each candidate, where some have fewer.
        """
        ngrams = pack_ngrams(codes(candidates))
        counts = _matches(ngrams, ngrams)
        importance = self.weights.look_up(ngrams).square()
        others = pack_ngrams(references.codes[rows], missing=NO_REFERENCE_NGRAM)
        matches = _matches(ngrams[:, None], others)
        # A sum over different n-grams is a sum over all places, each taking its share of the n-gram's repetitions.
        shares = torch.minimum(counts[:, None], matches) * matches * (importance / counts)[:, None]
        norms = _norm(counts, importance)[:, None] * references.norms[rows]
        similarity = shares.sum(-1) / norms.clamp_min(torch.finfo(norms.dtype).tiny)
        # The metric's length is the number of bigrams.
        difference = (candidates.lengths - 1).clamp_min(0)[:, None] - (references.lengths[rows] - 1).clamp_min(0)
        penalty = (difference.square() * (-0.5 / LENGTH_DEVIATION**2)).exp()
        return mean_over_references(SCALE * penalty * similarity.mean(-1), present)


def _matches(
    ngrams: Int[Tensor, "*captions sizes time"], others: Int[Tensor, "*more_captions sizes other_time"]
) -> Float[Tensor, "*broadcast sizes time"]:
    """How often each n-gram is among the others."""
    return (ngrams[..., :, None] == others[..., None, :]).sum(-1, dtype=torch.float32)


def _norm(
    counts: Float[Tensor, "*captions sizes time"], importance: Float[Tensor, "*captions sizes time"]
) -> Float[Tensor, "*captions sizes"]:
    """Length of the vector of counts times weights, one entry for each different n-gram."""
    return (counts * importance).sum(-1).sqrt()
