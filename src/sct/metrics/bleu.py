"""BLEU after Papineni et al. 2002, as the official tool of the COCO captions counts it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from sct.metrics.captions import Pairs
from sct.metrics.interface import Score
from sct.metrics.ngrams import LONGEST

# The official tool adds these above and below each fraction line, so that nothing is divided by zero.
_TINY, _SMALL = 1e-15, 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Bleu:
    """BLEU of one to four words; each also counts the shorter n-grams."""

    bleu_1: Score
    bleu_2: Score
    bleu_3: Score
    bleu_4: Score

    @property
    def scores(self) -> tuple[Score, Score, Score, Score]:
        """All four, the shortest n-grams first."""
        return self.bleu_1, self.bleu_2, self.bleu_3, self.bleu_4


def bleu(pairs: Pairs) -> Bleu:
    """How many of a candidate's n-grams its references hold, with a penalty for being shorter than they are.

    The corpus figure adds up n-grams and lengths over all candidates before it divides. The length to reach is that of
    the reference closest to the candidate's own, the shorter one of two.

    >>> from sct.metrics.captions import pair
    >>> round(bleu(pair(["a dog runs"], [["a dog sleeps", "a cat"]])).bleu_2.corpus, 4)
    0.5774
    """
    lengths = pairs.candidates.lengths()
    expected = _closest_lengths(pairs)
    matched = np.stack([_matched(pairs, place) for place in range(LONGEST)])
    possible = np.maximum(0, lengths - np.arange(LONGEST)[:, None])
    per_caption = _scores(matched, possible, lengths, expected)
    corpus = _scores(
        *(part.sum(axis=-1, keepdims=True) for part in (matched, possible)),
        *(part.sum(keepdims=True) for part in (lengths, expected)),
    )
    return Bleu(*(Score(float(total[0]), single) for total, single in zip(corpus, per_caption, strict=True)))


def _scores(
    matched: Int[np.ndarray, "orders captions"],
    possible: Int[np.ndarray, "orders captions"],
    lengths: Int[np.ndarray, " captions"],
    expected: Int[np.ndarray, " captions"],
) -> Float[np.ndarray, "orders captions"]:
    products = np.cumprod((matched + _TINY) / (possible + _SMALL), axis=0)
    means = products ** (1 / np.arange(1, LONGEST + 1)[:, None])
    ratio = (lengths + _TINY) / (expected + _SMALL)
    return means * np.exp(np.minimum(0, 1 - 1 / ratio))


def _closest_lengths(pairs: Pairs) -> Int[np.ndarray, " captions"]:
    """Length of the reference that is closest to the candidate's length."""
    lengths = pairs.references.lengths()
    own = np.repeat(pairs.candidates.lengths(), np.diff(pairs.reference_rows))
    longest = int(lengths.max()) + 1
    # Distance first, then length, in one number; its smallest in each group is the one expected.
    ranks = np.abs(lengths - own) * longest + lengths
    return np.minimum.reduceat(ranks, pairs.reference_rows[:-1]) % longest


def _matched(pairs: Pairs, place: int) -> Int[np.ndarray, " captions"]:
    """How many n-grams of each candidate are in a reference, none more often than the reference that has it most."""
    overlap = pairs.overlaps.of_length[place]
    shared, counts = overlap.reference_entries, overlap.ngrams.count
    if not len(shared):
        return np.zeros(len(pairs), dtype=np.int64)
    best = np.maximum.reduceat(counts[shared.values], shared.offsets[:-1])
    clipped = np.minimum(best, counts[overlap.candidate_entry])
    groups = pairs.overlaps.group[overlap.ngrams.caption[overlap.candidate_entry]]
    return np.bincount(groups, weights=clipped, minlength=len(pairs)).astype(np.int64)
