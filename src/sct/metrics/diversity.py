"""Diversity of several captions per image (Div-n, mBLEU), and the best-of-n oracle."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from sct.errors import InputError
from sct.metrics.arrays import concat_ranges, lengths_to_offsets
from sct.metrics.bleu import BleuSums, bleu
from sct.metrics.captions import CaptionSets, Pairs
from sct.metrics.interface import MeanSums, Score
from sct.metrics.ngrams import MAX_NGRAM_SIZE, count_ngrams


def best_of_n(sets: CaptionSets, metric: Callable[[Pairs], Score]) -> Score:
    """Score of the best caption of each image by the metric itself, the oracle of the paper's Table 6.

    Each caption is scored against all references of its image. The corpus score is the metric of the selected captions;
    ``per_caption`` holds their scores, one per image. For metrics whose corpus score is a mean this is the mean of the
    best, as in Wang et al. 2017 and Deshpande et al. 2018. For BLEU others report that mean too: average
    ``per_caption``.

    CIDEr-D needs document frequencies counted per image:
    ``partial(cider_d, frequencies=DocumentFrequencies.from_references(sets))``. Its default counts each image once per
    caption.
    """
    scores = metric(sets.select_pairs(np.arange(len(sets.captions)))).per_caption
    rows = best_rows(scores, sets.caption_offsets)
    best = metric(sets.select_pairs(rows))
    return Score(best.corpus, scores[rows], best.sums)


def best_rows(
    scores: Float[np.ndarray, " captions"], caption_offsets: Int[np.ndarray, " images_and_one"]
) -> Int[np.ndarray, " images"]:
    """Row of the highest-scoring caption of each image, the first of equals; NaN ranks lowest.

    >>> best_rows(np.array([0.5, 0.75, 0.25, np.nan, 0.0]), np.array([0, 3, 5])).tolist()
    [1, 4]
    """
    comparable = np.where(np.isnan(scores), -np.inf, scores)
    highest = np.maximum.reduceat(comparable, caption_offsets[:-1])
    candidates = np.flatnonzero(comparable == np.repeat(highest, np.diff(caption_offsets)))
    rows: np.ndarray = candidates[np.searchsorted(candidates, caption_offsets[:-1])]
    return rows


def distinct_ngrams(sets: CaptionSets, size: int) -> Score:
    """Div-n: distinct n-grams of an image's captions divided by their number of words; one score per image.

    The divisor is the number of words for every n, as in Aneja et al. 2019 and later work.
    """
    if not 1 <= size <= MAX_NGRAM_SIZE:
        raise InputError(f"got n-grams of {size} words, expected 1 to {MAX_NGRAM_SIZE}")
    image_of = sets.image_of_caption()
    ngrams = count_ngrams(sets.captions, max(1, len(sets.words)))[size - 1]
    images = image_of[ngrams.caption]
    # Entries are sorted by n-gram, then caption, so those of one n-gram and image are consecutive.
    is_new = (np.diff(ngrams.ngram, prepend=-1) != 0) | (np.diff(images, prepend=-1) != 0)
    distinct = np.bincount(images[is_new], minlength=len(sets))
    words = np.bincount(image_of, weights=sets.captions.lengths(), minlength=len(sets))
    per_image = np.divide(distinct, words, out=np.zeros(len(sets)), where=words > 0)
    return Score.mean(per_image)


@dataclass(frozen=True, slots=True)
class MutualBleuSums:
    """BLEU counts of the captions at each rank, which mBLEU averages over."""

    ranks: tuple[BleuSums, ...]

    def add(self, other: "MutualBleuSums") -> "MutualBleuSums":
        """Return the counts over the captions of both, rank by rank."""
        shorter, longer = sorted((self.ranks, other.ranks), key=len)
        shared = tuple(first.add(second) for first, second in zip(shorter, longer, strict=False))
        return MutualBleuSums(shared + longer[len(shorter) :])

    def corpus(self) -> float:
        """Return the mean over ranks of corpus BLEU-4, NaN without ranks."""
        return MeanSums.of(rank.corpus() for rank in self.ranks).corpus()

    def to_array(self) -> np.ndarray:
        """Return a row of counts per rank."""
        return np.array([rank.to_array() for rank in self.ranks], np.int64).reshape(
            len(self.ranks), 2 * MAX_NGRAM_SIZE + 3
        )

    @classmethod
    def from_array(cls, values: np.ndarray) -> "MutualBleuSums":
        """Rebuild what ``to_array`` returned."""
        if values.ndim != 2:
            raise InputError(f"got counts of shape {values.shape}, expected a row per rank")
        return cls(tuple(map(BleuSums.from_array, values)))


def mutual_bleu(sets: CaptionSets) -> Score:
    """mBLEU-4: BLEU-4 of each caption against the other captions of its image; lower is more diverse.

    The corpus score is the mean over ranks of the corpus BLEU of the captions at that rank, as common scripts compute
    it. ``per_caption`` has a score for every caption.
    """
    sets.require_multiple("mBLEU")
    per_caption = np.zeros(len(sets.captions))
    ranks = []
    for rank in range(int(sets.sizes().max())):
        images = np.flatnonzero(sets.sizes() > rank)
        rows = sets.caption_offsets[images] + rank
        score = bleu(_pair_with_others(sets, rows))
        per_caption[rows] = score.bleu_4.per_caption
        ranks.append(score.sums)
    sums = MutualBleuSums(tuple(ranks))
    return Score(sums.corpus(), per_caption, sums)


def _pair_with_others(sets: CaptionSets, rows: Int[np.ndarray, " rows"]) -> Pairs:
    """Pair captions with the other captions of their images as references."""
    images = sets.image_of_caption()[rows]
    sizes = sets.sizes()[images]
    set_rows = concat_ranges(sets.caption_offsets[images], sizes)
    others = set_rows[set_rows != np.repeat(rows, sizes)]
    return Pairs(sets.words, sets.captions.take(rows), sets.captions.take(others), lengths_to_offsets(sizes - 1))
