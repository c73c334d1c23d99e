"""BLEU (Papineni et al. 2002), equal to the official COCO caption evaluation."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from sct.errors import InputError
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
    sums: "BleuSums"
    """Counts that BLEU-4, and with another ``size`` the others, come from."""

    @property
    def scores(self) -> tuple[Score, Score, Score, Score]:
        """All four, BLEU-1 first."""
        return self.bleu_1, self.bleu_2, self.bleu_3, self.bleu_4


@dataclass(frozen=True, slots=True)
class BleuSums:
    """Counts over a corpus that BLEU of n-grams of up to ``size`` words is computed from.

    >>> two = BleuSums(2, (3, 1, 0, 0), (4, 3, 2, 1), 4, 4)
    >>> two.add(two).matched, round(two.corpus(), 4)  # sqrt(3 / 4 * 1 / 3)
    ((6, 2, 0, 0), 0.5)
    """

    size: int
    matched: tuple[int, ...]
    """Clipped matches of n-grams of 1 to 4 words."""
    possible: tuple[int, ...]
    """N-grams of 1 to 4 words in candidates."""
    length: int
    """Words of candidates."""
    reference_length: int
    """Words of the references of the closest length."""

    def add(self, other: "BleuSums") -> "BleuSums":
        """Return the counts over the captions of both."""
        matched, possible = (
            tuple(map(int.__add__, *counts))
            for counts in ((self.matched, other.matched), (self.possible, other.possible))
        )
        return BleuSums(
            self.size,
            matched,
            possible,
            self.length + other.length,
            self.reference_length + other.reference_length,
        )

    def corpus(self) -> float:
        """Return BLEU over all captions."""
        scores = _scores(
            np.array(self.matched)[:, None],
            np.array(self.possible)[:, None],
            np.array([self.length]),
            np.array([self.reference_length]),
        )
        return float(scores[self.size - 1, 0])

    def to_array(self) -> np.ndarray:
        """Return all counts as int64."""
        return np.array([self.size, *self.matched, *self.possible, self.length, self.reference_length], np.int64)

    @classmethod
    def from_array(cls, values: np.ndarray) -> "BleuSums":
        """Rebuild what ``to_array`` returned."""
        if values.dtype != np.int64 or values.shape != (2 * MAX_NGRAM_SIZE + 3,):
            raise InputError(f"got counts of type {values.dtype} {values.shape}, expected 11 of int64")
        size, *counts = values.tolist()
        if not 1 <= size <= MAX_NGRAM_SIZE or min(counts) < 0:
            raise InputError(f"got n-grams of {size} words and the counts {counts}, expected 1 to 4 and none below 0")
        return cls(size, tuple(counts[:4]), tuple(counts[4:8]), *counts[8:])


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
    totals = matched.sum(axis=1).tolist(), possible.sum(axis=1).tolist()
    num_words = int(lengths.sum()), int(reference_lengths.sum())
    sums = [BleuSums(size, tuple(totals[0]), tuple(totals[1]), *num_words) for size in range(1, MAX_NGRAM_SIZE + 1)]
    one, two, three, four = (Score(total.corpus(), each, total) for total, each in zip(sums, per_caption, strict=True))
    return Bleu(one, two, three, four, sums[-1])


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
