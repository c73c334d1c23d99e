"""CIDEr's weights from a saved table of document frequencies."""

import numpy as np
import torch

from sct.language.vocabulary import Vocabulary
from sct.metrics.document_frequencies import BITS_PER_WORD, DocumentFrequencies
from sct.metrics.ngrams import LONGEST
from sct.training.rewards.ngrams import MAX_WORDS, NgramWeights


def ngram_weights(frequencies: DocumentFrequencies, vocabulary: Vocabulary) -> NgramWeights:
    """Weights of n-grams by the ids of a vocabulary, which should be the dataset's whole one.

    An n-gram with a word that the vocabulary lacks is left out, since no caption can have it.
    """
    ids = np.array([vocabulary.ids.get(word, MAX_WORDS) for word in frequencies.words], dtype=np.int64)
    # Both tables pack a word's number plus one, and 0 where the n-gram has ended.
    codes = np.concatenate([[0], np.where(ids < MAX_WORDS, ids + 1, -1)])
    shifts = np.arange(LONGEST) * BITS_PER_WORD
    numbers = (frequencies.keys[:, None] >> shifts) & ((1 << BITS_PER_WORD) - 1)
    found = codes[numbers]
    kept = (found >= 0).all(1)
    keys = np.bitwise_or.reduce(found[kept] << shifts, axis=1)
    counts = frequencies.counts[kept].astype(np.int64)
    return NgramWeights.of_counts(torch.from_numpy(keys), torch.from_numpy(counts), frequencies.num_documents)
