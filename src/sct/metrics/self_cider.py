"""Self-CIDEr: how different the captions of one image are, after Wang and Chan 2019.

Captions about one thing are alike in their rare n-grams, so the matrix of their similarities has one large eigenvalue;
captions about different things share the spectrum out evenly.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from sct.metrics.caption_sets import CaptionSets
from sct.metrics.document_frequencies import DocumentFrequencies
from sct.metrics.interface import Score
from sct.metrics.ngrams import LONGEST, count_ngrams


def self_cider(sets: CaptionSets, frequencies: DocumentFrequencies | None = None) -> Score:
    """Score each image: 0 where its captions are all alike, 1 where no two share anything and none is under four words.

    Two captions are as alike as CIDEr finds them, a mean of cosines. CIDEr-D would not do: it is no kernel, so the
    matrix could have negative eigenvalues. Without ``frequencies`` they are counted over the images' references.
    """
    sets.refuse_single("self-CIDEr")
    vectors = _unit_vectors(sets, sets.frequencies() if frequencies is None else frequencies)
    bounds = np.searchsorted(vectors.image, np.arange(len(sets) + 1))
    per_image = np.zeros(len(sets))
    for image in range(len(sets)):
        entries = slice(bounds[image], bounds[image + 1])
        first, last = sets.image_rows[image : image + 2]
        matrix = np.zeros((last - first, vectors.column[entries].max(initial=-1) + 1))
        matrix[vectors.caption[entries] - first, vectors.column[entries]] = vectors.value[entries]
        per_image[image] = spread(matrix @ matrix.T)
    return Score(float(per_image.mean()), per_image)


def spread(similarities: Float[np.ndarray, "captions captions"]) -> float:
    """How evenly the spectrum is shared out among n captions: ``-log_n(sqrt(largest) / sum of sqrt)``.

    The roots of the eigenvalues are how much of the captions lies along each direction of their space.

    >>> spread(np.eye(4)), spread(np.ones((4, 4))).__round__(6)
    (1.0, 0.0)
    """
    strengths = np.sqrt(np.clip(np.linalg.eigvalsh(similarities), 0.0, None))
    total = float(strengths.sum())
    if total == 0:  # captions without a word, or with none that weighs anything
        return 0.0
    return float(np.log(total / strengths[-1]) / np.log(len(similarities)))


@dataclass(frozen=True, slots=True, eq=False)
class _Vectors:
    """Vectors of captions whose products are CIDEr similarities: an entry for each value that is not 0, by image."""

    image: Int[np.ndarray, " entries"]
    caption: Int[np.ndarray, " entries"]
    column: Int[np.ndarray, " entries"]
    """Counted from 0 for each image."""
    value: Float[np.ndarray, " entries"]


def _unit_vectors(sets: CaptionSets, frequencies: DocumentFrequencies) -> _Vectors:
    tables = count_ngrams(sets.captions, max(1, len(sets.words)))
    captions, numbers, values = [], [], []
    num_ngrams = 0
    for ngrams, weight in zip(tables, frequencies.weights(tables, sets.words), strict=True):
        weighted = ngrams.count * weight[ngrams.ngram]
        norms = np.sqrt(np.bincount(ngrams.caption, weights=weighted**2, minlength=len(sets.captions)))
        counts = weighted > 0
        captions.append(ngrams.caption[counts])
        numbers.append(num_ngrams + ngrams.ngram[counts].astype(np.int64))
        # The root of the number of lengths: the product of two vectors is then the mean of the cosines of each length.
        values.append(weighted[counts] / norms[captions[-1]] / np.sqrt(LONGEST))
        num_ngrams += len(ngrams.last_word)
    caption = np.concatenate(captions)
    image = sets.image_of_caption()[caption]
    keys = image * num_ngrams + np.concatenate(numbers)
    order = np.argsort(keys, kind="stable")
    keys, image = keys[order], image[order]
    columns = np.cumsum(np.diff(keys, prepend=-1) > 0) - 1
    columns -= columns[np.searchsorted(image, image)] if len(columns) else columns
    return _Vectors(image, caption[order], columns, np.concatenate(values)[order])
