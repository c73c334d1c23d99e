"""CIDEr-D (Vedantam et al. 2015), equal to the official COCO caption evaluation."""

import numpy as np
from jaxtyping import Float

from sct.metrics.captions import Pairs
from sct.metrics.document_frequencies import DocumentFrequencies, inverse_document_frequency
from sct.metrics.interface import Score
from sct.metrics.ngrams import MAX_NGRAM_SIZE

_SIGMA = 6.0


def cider_d(pairs: Pairs, frequencies: DocumentFrequencies | None = None) -> Score:
    """Clipped cosine similarity of TF-IDF n-gram vectors with a Gaussian length penalty, from 0 to 10.

    Without ``frequencies`` the references of each candidate are one document; a single candidate then scores 0, because
    every n-gram is in every document. As in the official tool, the length of a caption is its number of bigrams.
    """
    overlaps = pairs.overlaps
    captions = len(overlaps.group)
    similarity = np.zeros(captions)
    for overlap, idf in zip(overlaps.by_size, _idf(pairs, frequencies), strict=True):
        ngrams, shared = overlap.ngrams, overlap.reference_entries
        tf_idf = ngrams.count * idf[ngrams.ngram]
        norms = np.sqrt(np.bincount(ngrams.caption, weights=tf_idf**2, minlength=captions))
        of_references = tf_idf[shared.values]
        clipped = np.minimum(np.repeat(tf_idf[overlap.candidate_entry], shared.lengths()), of_references)
        products = np.bincount(ngrams.caption[shared.values], weights=clipped * of_references, minlength=captions)
        scale = norms * norms[overlaps.candidate_row][overlaps.group]
        similarity += np.divide(products, scale, out=np.zeros(captions), where=scale > 0)
    lengths = np.maximum(overlaps.num_words - 1, 0)
    similarity *= np.exp(-((lengths - lengths[overlaps.candidate_row][overlaps.group]) ** 2) / (2 * _SIGMA**2))
    # A candidate is never matched with itself, so its own row is 0.
    sums = np.add.reduceat(similarity, overlaps.candidate_row)
    per_caption = 10 / MAX_NGRAM_SIZE * sums / np.diff(pairs.reference_offsets)
    return Score.mean(per_caption)


def _idf(pairs: Pairs, frequencies: DocumentFrequencies | None) -> list[Float[np.ndarray, " ngrams"]]:
    """IDF of the n-grams of each size, from the given table or from the references."""
    overlaps = pairs.overlaps.by_size
    if frequencies is not None:
        return frequencies.idf([overlap.ngrams for overlap in overlaps], pairs.words)
    return [inverse_document_frequency(overlap.documents, len(pairs)) for overlap in overlaps]
