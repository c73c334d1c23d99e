"""How different the captions of one image are, and how good the best of them is."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from sct.errors import InputError
from sct.metrics.bleu import bleu
from sct.metrics.caption_sets import CaptionSets, offsets_of, runs, take
from sct.metrics.captions import Pairs
from sct.metrics.interface import Score
from sct.metrics.ngrams import LONGEST, count_ngrams


def best_of_n(sets: CaptionSets, metric: Callable[[Pairs], Score]) -> Score:
    """Score the best caption of each image, best by the metric itself: the oracle of the paper's Table 7.

    Each caption is scored against all references of its image, and the highest-scoring one is kept; the corpus figure
    is the metric of the kept captions, and ``per_caption`` holds their scores, one an image. For a metric whose corpus
    figure is a mean that is the mean of the best, as Wang et al. 2017 and Deshpande et al. 2018 have it. Of BLEU, whose
    corpus figure is none, others report the mean too: take it of ``per_caption``.

    CIDEr-D wants its document frequencies counted over images: hand in
    ``partial(cider_d, frequencies=sets.frequencies())``. Of its own it would count each image once a caption.
    """
    scores = metric(sets.pairs_of(np.arange(len(sets.captions)))).per_caption
    rows = best_rows(scores, sets.image_rows)
    return Score(metric(sets.pairs_of(rows)).corpus, scores[rows])


def best_rows(
    scores: Float[np.ndarray, " captions"], image_rows: Int[np.ndarray, " images_and_one"]
) -> Int[np.ndarray, " images"]:
    """Row of the caption with the highest score of each image, the first one of equals; NaN is lower than any.

    >>> best_rows(np.array([0.5, 0.75, 0.25, np.nan, 0.0]), np.array([0, 3, 5])).tolist()
    [1, 4]
    """
    comparable = np.where(np.isnan(scores), -np.inf, scores)
    highest = np.maximum.reduceat(comparable, image_rows[:-1])
    candidates = np.flatnonzero(comparable == np.repeat(highest, np.diff(image_rows)))
    rows: np.ndarray = candidates[np.searchsorted(candidates, image_rows[:-1])]
    return rows


def distinct_ngrams(sets: CaptionSets, length: int) -> Score:
    """Div-1, Div-2 and so on: different n-grams of an image's captions, over all their words; a score an image.

    The divisor is the number of words for every length, as in Aneja et al. 2019 and what came after.
    """
    if not 1 <= length <= LONGEST:
        raise InputError(f"n-grams of {length} words: expected 1 to {LONGEST}")
    image_of = sets.image_of_caption()
    ngrams = count_ngrams(sets.captions, max(1, len(sets.words)))[length - 1]
    images = image_of[ngrams.caption]
    # Entries come by n-gram and then by caption, so one n-gram of one image stands together.
    is_new = (np.diff(ngrams.ngram, prepend=-1) != 0) | (np.diff(images, prepend=-1) != 0)
    distinct = np.bincount(images[is_new], minlength=len(sets))
    words = np.bincount(image_of, weights=sets.captions.lengths(), minlength=len(sets))
    per_image = np.divide(distinct, words, out=np.zeros(len(sets)), where=words > 0)
    return Score(float(per_image.mean()), per_image)


def mutual_bleu(sets: CaptionSets) -> Score:
    """mBLEU-4: BLEU-4 of each caption with the other captions of its image as references; lower is more diverse.

    ``per_caption`` has a score for every caption. The corpus figure is the mean, over places in the sets, of the corpus
    BLEU of the captions at that place, as the field's scripts compute it.
    """
    sets.refuse_single("mBLEU")
    per_caption = np.zeros(len(sets.captions))
    corpus = []
    for place in range(int(sets.sizes().max())):
        images = np.flatnonzero(sets.sizes() > place)
        rows = sets.image_rows[images] + place
        score = bleu(_against_the_others(sets, rows)).bleu_4
        per_caption[rows] = score.per_caption
        corpus.append(score.corpus)
    return Score(float(np.mean(corpus)), per_caption)


def _against_the_others(sets: CaptionSets, rows: Int[np.ndarray, " rows"]) -> Pairs:
    """Captions with the others of their images as references."""
    images = sets.image_of_caption()[rows]
    sizes = sets.sizes()[images]
    whole_sets = runs(sets.image_rows[images], sizes)
    others = whole_sets[whole_sets != np.repeat(rows, sizes)]
    return Pairs(sets.words, take(sets.captions, rows), take(sets.captions, others), offsets_of(sizes - 1))
