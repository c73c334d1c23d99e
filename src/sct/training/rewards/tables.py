"""The tables of the rewards, made from those of the exact metrics, so that both score alike."""

import numpy as np
import torch

from sct.language.noun_table import NounTable
from sct.language.vocabulary import Vocabulary
from sct.metrics.document_frequencies import BITS_PER_WORD, DocumentFrequencies
from sct.metrics.ngrams import LONGEST
from sct.training.rewards.alignment import AlignmentReward
from sct.training.rewards.cider import CiderReward
from sct.training.rewards.ngrams import MAX_WORDS, NgramWeights


def cider_reward(frequencies: DocumentFrequencies, vocabulary: Vocabulary) -> CiderReward:
    """CIDEr-D by the ids of a vocabulary, which should be the dataset's whole one.

    An n-gram with a word that the vocabulary lacks is left out, since no caption can have it.
    """
    ids = np.array([vocabulary.ids.get(word, MAX_WORDS) for word in frequencies.words], dtype=np.int64)
    # Both tables pack a word's number plus one, and 0 where the n-gram has ended.
    codes = np.concatenate([[0], np.where(ids < MAX_WORDS, ids + 1, -1)])
    shifts = np.arange(LONGEST) * BITS_PER_WORD
    found = codes[(frequencies.keys[:, None] >> shifts) & ((1 << BITS_PER_WORD) - 1)]
    kept = (found >= 0).all(1)
    ngrams = torch.from_numpy(np.bitwise_or.reduce(found[kept] << shifts, axis=1))
    counts = torch.from_numpy(frequencies.counts[kept].astype(np.int64))
    return CiderReward(NgramWeights.of_counts(ngrams, counts, frequencies.num_documents))


def alignment_reward(table: NounTable, vocabulary: Vocabulary) -> AlignmentReward:
    """Noun alignment by the ids of a vocabulary, which should be the dataset's whole one.

    For the released code's reward hand in ``table.known()``: it counts no noun that has no vector.
    """
    rows = [row for row, noun in enumerate(table.nouns) if noun in vocabulary.ids]
    words = torch.tensor([vocabulary.ids[table.nouns[row]] for row in rows], dtype=torch.long)
    return AlignmentReward.of_vectors(words, torch.from_numpy(table.units[rows]), len(vocabulary))
