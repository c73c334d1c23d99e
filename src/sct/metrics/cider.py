"""CIDEr-D after Vedantam et al. 2015, as the official tool of the COCO captions counts it."""

import numpy as np
from jaxtyping import Float

from sct.metrics.captions import Pairs
from sct.metrics.document_frequencies import DocumentFrequencies, weigh
from sct.metrics.interface import Score
from sct.metrics.ngrams import LONGEST

_SIGMA = 6.0


def cider_d(pairs: Pairs, frequencies: DocumentFrequencies | None = None) -> Score:
    """How alike candidate and references are in n-grams, rare ones counting more; 10 is the most.

    Rare is what few documents hold. Without ``frequencies`` the references of each candidate are one document; then a
    single candidate always scores 0, because every n-gram stands in every document. What the official tool takes for
    the length of a caption is the number of its pairs of neighbouring words.
    """
    overlaps = pairs.overlaps
    captions = len(overlaps.group)
    similarity = np.zeros(captions)
    for overlap, weight in zip(overlaps.of_length, _weights(pairs, frequencies), strict=True):
        ngrams, shared = overlap.ngrams, overlap.reference_entries
        weighted = ngrams.count * weight[ngrams.ngram]
        norms = np.sqrt(np.bincount(ngrams.caption, weights=weighted**2, minlength=captions))
        theirs = weighted[shared.values]
        clipped = np.minimum(np.repeat(weighted[overlap.candidate_entry], shared.lengths()), theirs)
        products = np.bincount(ngrams.caption[shared.values], weights=clipped * theirs, minlength=captions)
        scale = norms * norms[overlaps.candidate][overlaps.group]
        similarity += np.divide(products, scale, out=np.zeros(captions), where=scale > 0)
    lengths = np.maximum(overlaps.num_words - 1, 0)
    similarity *= np.exp(-((lengths - lengths[overlaps.candidate][overlaps.group]) ** 2) / (2 * _SIGMA**2))
    # A candidate shares nothing with itself here, so its own row adds nothing.
    sums = np.add.reduceat(similarity, overlaps.candidate)
    per_caption = 10 / LONGEST * sums / np.diff(pairs.reference_rows)
    return Score(float(per_caption.mean()), per_caption)


def _weights(pairs: Pairs, frequencies: DocumentFrequencies | None) -> list[Float[np.ndarray, " ngrams"]]:
    """Weights of the n-grams of each length, by the groups of references or by a table."""
    overlaps = pairs.overlaps.of_length
    if frequencies is not None:
        return frequencies.weights([overlap.ngrams for overlap in overlaps], pairs.words)
    return [weigh(overlap.documents, len(pairs)) for overlap in overlaps]
