"""Self-CIDEr (Wang and Chan 2019): diversity of an image's captions from the spectrum of their similarity matrix.

Similar captions give one large eigenvalue; captions that share nothing give equal ones.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from sct.metrics.arrays import RaggedArray
from sct.metrics.captions import CaptionSets
from sct.metrics.document_frequencies import DocumentFrequencies
from sct.metrics.interface import Score
from sct.metrics.ngrams import MAX_NGRAM_SIZE, count_ngrams

_BLOCK_CELLS = 1 << 24
"""Values of one dense matrix: 128 MiB."""


def self_cider(sets: CaptionSets, frequencies: DocumentFrequencies | None = None) -> Score:
    """Score per image: 0 for identical captions, 1 if no two share an n-gram and none is shorter than four words.

    The similarity is plain CIDEr, a mean of cosines: CIDEr-D is not a kernel, so its matrix may have negative
    eigenvalues. Without ``frequencies`` n-grams are counted over the references of the images.
    """
    sets.require_multiple("self-CIDEr")
    vectors = _unit_vectors(sets, DocumentFrequencies.from_references(sets) if frequencies is None else frequencies)
    bounds = np.searchsorted(vectors.image, np.arange(len(sets) + 1))
    per_image = np.zeros(len(sets))
    for image in range(len(sets)):
        entries = slice(bounds[image], bounds[image + 1])
        first, last = sets.caption_offsets[image : image + 2]
        per_image[image] = spectral_diversity(_similarities(vectors, entries, int(first), int(last - first)))
    return Score.mean(per_image)


def _similarities(
    vectors: "_SparseVectors", entries: slice, first_caption: int, num_captions: int
) -> Float[np.ndarray, "captions captions"]:
    """Dot products of the captions of one image, over blocks of columns: a single one for most images."""
    caption, column, value = vectors.caption[entries] - first_caption, vectors.column[entries], vectors.value[entries]
    num_columns = int(column.max(initial=-1)) + 1
    block = max(1, _BLOCK_CELLS // num_captions)
    similarities = np.zeros((num_captions, num_captions))
    for start in range(0, num_columns, block):
        rows = slice(*np.searchsorted(column, [start, start + block]))  # columns ascend
        matrix = np.zeros((num_captions, min(block, num_columns - start)))
        matrix[caption[rows], column[rows] - start] = value[rows]
        similarities += matrix @ matrix.T
    return similarities


def spectral_diversity(similarities: Float[np.ndarray, "captions captions"]) -> float:
    """``-log_n(s_max / sum(s))`` for the singular values ``s``, roots of the eigenvalues, of n captions.

    >>> spectral_diversity(np.eye(4)), spectral_diversity(np.ones((4, 4))).__round__(6)
    (1.0, 0.0)
    """
    singular_values = np.sqrt(np.clip(np.linalg.eigvalsh(similarities), 0.0, None))
    total = float(singular_values.sum())
    if total == 0:  # captions without words, or with words of zero IDF only
        return 0.0
    return float(np.log(total / singular_values[-1]) / np.log(len(similarities)))


@dataclass(frozen=True, slots=True, eq=False)
class _SparseVectors:
    """Caption vectors whose dot products are CIDEr similarities: one entry per nonzero value, sorted by image."""

    image: Int[np.ndarray, " entries"]
    caption: Int[np.ndarray, " entries"]
    column: Int[np.ndarray, " entries"]
    """Column index within the image."""
    value: Float[np.ndarray, " entries"]


def _number_words_by_image(sets: CaptionSets) -> CaptionSets:
    """Give each image its own word ids, in order of their first use, so that its sums do not depend on other images.

    Roots of eigenvalues near 0 turn a difference in the last bit into one of 1e-8.
    """
    image_of_word = np.repeat(sets.image_of_caption(), sets.captions.lengths())
    keys = image_of_word * max(1, len(sets.words)) + sets.captions.values
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    ids = np.empty(len(order), np.int64)
    ids[order] = np.arange(len(order))
    words = tuple(sets.words[word] for word in sets.captions.values[first[order]].tolist())
    return replace(sets, words=words, captions=RaggedArray(ids[inverse], sets.captions.offsets))


def _unit_vectors(sets: CaptionSets, frequencies: DocumentFrequencies) -> _SparseVectors:
    local = _number_words_by_image(sets)
    tables = count_ngrams(local.captions, max(1, len(local.words)))
    captions, ngram_ids, values = [], [], []
    num_ngrams = 0
    for ngrams, idf in zip(tables, frequencies.idf(tables, local.words), strict=True):
        tf_idf = ngrams.count * idf[ngrams.ngram]
        norms = np.sqrt(np.bincount(ngrams.caption, weights=tf_idf**2, minlength=len(sets.captions)))
        nonzero = tf_idf > 0
        captions.append(ngrams.caption[nonzero])
        ngram_ids.append(num_ngrams + ngrams.ngram[nonzero].astype(np.int64))
        # Dividing by sqrt(MAX_NGRAM_SIZE) makes the dot product the mean of the cosines of each size.
        values.append(tf_idf[nonzero] / norms[captions[-1]] / np.sqrt(MAX_NGRAM_SIZE))
        num_ngrams += len(ngrams.last_word)
    caption = np.concatenate(captions)
    image = sets.image_of_caption()[caption]
    keys = image * num_ngrams + np.concatenate(ngram_ids)
    order = np.argsort(keys, kind="stable")
    keys, image = keys[order], image[order]
    columns = np.cumsum(np.diff(keys, prepend=-1) > 0) - 1
    columns -= columns[np.searchsorted(image, image)] if len(columns) else columns
    return _SparseVectors(image, caption[order], columns, np.concatenate(values)[order])
