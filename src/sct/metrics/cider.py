"""CIDEr-D after Vedantam et al. 2015, as the official tool of the COCO captions counts it."""

import numpy as np
from jaxtyping import Float, Int

from sct.metrics.document_frequencies import BITS_PER_WORD, DocumentFrequencies, count_documents
from sct.metrics.ngrams import LONGEST
from sct.metrics.overlap import Overlap
from sct.metrics.pairs import Pairs
from sct.metrics.score import Score

_SIGMA = 6.0


def cider_d(pairs: Pairs, frequencies: DocumentFrequencies | None = None) -> Score:
    """How alike candidate and references are in n-grams, rare ones counting more; 10 is the most.

    Rare is what few documents hold. Without ``frequencies`` the references of each candidate are one document; then a
    single candidate always scores 0, because every n-gram stands in every document. What the official tool takes for
    the length of a caption is the number of its pairs of neighbouring words.
    """
    overlap = pairs.overlap
    captions = len(overlap.group)
    weights = _weights_of_references(overlap) if frequencies is None else _weights_of_table(pairs, frequencies)
    similarity = np.zeros(captions)
    for ngrams, shared, weight in zip(overlap.ngrams, overlap.shared, weights, strict=True):
        entry_weight = ngrams.count * weight[ngrams.ngram]
        norms = np.sqrt(np.bincount(ngrams.caption, weights=entry_weight**2, minlength=captions))
        caption = ngrams.caption[shared.entry]
        theirs = entry_weight[shared.entry]
        clipped = np.minimum(shared.candidate_count * weight[ngrams.ngram[shared.entry]], theirs)
        products = np.bincount(caption, weights=clipped * theirs, minlength=captions)
        scale = norms * norms[overlap.first][overlap.group]
        similarity += np.divide(products, scale, out=np.zeros(captions), where=scale > 0)
    lengths = _bigrams(pairs)
    similarity *= np.exp(-((lengths - lengths[overlap.first][overlap.group]) ** 2) / (2 * _SIGMA**2))
    similarity[overlap.first] = 0  # a candidate is no reference of its own
    sums = np.add.reduceat(similarity, overlap.first)
    per_caption = 10 / LONGEST * sums / np.diff(pairs.reference_rows)
    return Score(float(per_caption.mean()), per_caption)


def _bigrams(pairs: Pairs) -> Int[np.ndarray, " captions"]:
    """How many pairs of neighbouring words each caption has, in the overlap's order."""
    words = np.insert(pairs.references.lengths(), pairs.reference_rows[:-1], pairs.candidates.lengths())
    bigrams: Int[np.ndarray, " captions"] = np.maximum(words - 1, 0)
    return bigrams


def _weight(documents: Int[np.ndarray, " ngrams"], num_documents: int) -> Float[np.ndarray, " ngrams"]:
    """Weigh n-grams: 0 for one that stands in all documents, and that exactly, which a difference of logs would not."""
    weights: Float[np.ndarray, " ngrams"] = np.log(num_documents / np.maximum(documents, 1))
    return weights


def _weights_of_references(overlap: Overlap) -> list[Float[np.ndarray, " ngrams"]]:
    """Weights of the n-grams of each length with each group of references as a document."""
    is_candidate = np.zeros(len(overlap.group), dtype=np.bool_)
    is_candidate[overlap.first] = True
    return [
        _weight(count_documents(ngrams, overlap.group, leave_out=is_candidate), len(overlap.first))
        for ngrams in overlap.ngrams
    ]


def _weights_of_table(pairs: Pairs, frequencies: DocumentFrequencies) -> list[Float[np.ndarray, " ngrams"]]:
    """Weights of the n-grams of each length by a table; an n-gram that the table does not hold is in one document."""
    number_of = {word: number for number, word in enumerate(frequencies.words, start=1)}
    numbers = np.array([number_of.get(word, 0) for word in pairs.words], dtype=np.int64)
    weights = []
    keys, known = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.bool_)
    for place, ngrams in enumerate(pairs.overlap.ngrams):
        last = numbers[ngrams.last_word]
        keys = keys[ngrams.prefix] | (last << (BITS_PER_WORD * place))
        known = known[ngrams.prefix] & (last > 0)
        documents = np.where(known, frequencies.look_up(keys), 1)
        weights.append(_weight(documents, frequencies.num_documents))
    return weights
