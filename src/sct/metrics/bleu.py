"""BLEU (Papineni et al. 2002), equal to the official COCO caption evaluation."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from sct.metrics.captions import Pairs
from sct.metrics.interface import Score
from sct.metrics.ngrams import MAX_NGRAM_SIZE

# The official tool adds these to each numerator and denominator to avoid division by zero.
_TINY, _SMALL = 1e-15, 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Bleu:
    """BLEU-1 to BLEU-4."""

    bleu_1: Score
    bleu_2: Score
    bleu_3: Score
    bleu_4: Score

    @property
    def scores(self) -> tuple[Score, Score, Score, Score]:
        """All four, BLEU-1 first."""
        return self.bleu_1, self.bleu_2, self.bleu_3, self.bleu_4


def bleu(pairs: Pairs) -> Bleu:
    """Clipped n-gram precision with a brevity penalty.

    The corpus score sums n-grams and lengths over all candidates before dividing. The reference length is the closest
    one to the candidate's, the shorter of two equally close ones.

    >>> from sct.metrics.captions import pair
    >>> round(bleu(pair(["a dog runs"], [["a dog sleeps", "a cat"]])).bleu_2.corpus, 4)
    0.5774
    """
    lengths = pairs.candidates.lengths()
    reference_lengths = _closest_reference_lengths(pairs)
    matched = np.stack([_clipped_matches(pairs, size - 1) for size in range(1, MAX_NGRAM_SIZE + 1)])
    possible = np.maximum(0, lengths - np.arange(MAX_NGRAM_SIZE)[:, None])
    per_caption = _scores(matched, possible, lengths, reference_lengths)
    corpus = _scores(
        *(part.sum(axis=-1, keepdims=True) for part in (matched, possible)),
        *(part.sum(keepdims=True) for part in (lengths, reference_lengths)),
    )
    return Bleu(*(Score(float(total[0]), single) for total, single in zip(corpus, per_caption, strict=True)))


def _scores(
    matched: Int[np.ndarray, "sizes captions"],
    possible: Int[np.ndarray, "sizes captions"],
    lengths: Int[np.ndarray, " captions"],
    reference_lengths: Int[np.ndarray, " captions"],
) -> Float[np.ndarray, "sizes captions"]:
    products = np.cumprod((matched + _TINY) / (possible + _SMALL), axis=0)
    means = products ** (1 / np.arange(1, MAX_NGRAM_SIZE + 1)[:, None])
    ratio = (lengths + _TINY) / (reference_lengths + _SMALL)
    return means * np.exp(np.minimum(0, 1 - 1 / ratio))


def _closest_reference_lengths(pairs: Pairs) -> Int[np.ndarray, " captions"]:
    """Length of the reference whose length is closest to the candidate's."""
    lengths = pairs.references.lengths()
    candidate_lengths = np.repeat(pairs.candidates.lengths(), np.diff(pairs.reference_offsets))
    base = int(lengths.max()) + 1
    # Rank by distance, then length, encoded in one integer.
    ranks = np.abs(lengths - candidate_lengths) * base + lengths
    return np.minimum.reduceat(ranks, pairs.reference_offsets[:-1]) % base


def _clipped_matches(pairs: Pairs, index: int) -> Int[np.ndarray, " captions"]:
    """N-grams of each candidate found in its references, each counted at most as often as in one reference."""
    overlap = pairs.overlaps.by_size[index]
    shared, counts = overlap.reference_entries, overlap.ngrams.count
    if not len(shared):
        return np.zeros(len(pairs), dtype=np.int64)
    best = np.maximum.reduceat(counts[shared.values], shared.offsets[:-1])
    clipped = np.minimum(best, counts[overlap.candidate_entry])
    groups = pairs.overlaps.group[overlap.ngrams.caption[overlap.candidate_entry]]
    return np.bincount(groups, weights=clipped, minlength=len(pairs)).astype(np.int64)
