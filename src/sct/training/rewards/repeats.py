"""How often a caption says again what it has said."""

import torch
from jaxtyping import Float
from torch import Tensor

from sct.training.rewards.ngrams import CAPTIONS_AT_ONCE, NO_NGRAM, codes, pack_ngrams
from sct.training.rewards.sentences import Sentences


def repeated_pairs(sentences: Sentences) -> Float[Tensor, " captions"]:
    """Places at which two words follow each other that did so before in the same caption.

    >>> repeated_pairs(Sentences.of_lists([[4, 5, 6, 4, 5], [4, 4, 4]])).tolist()
    [1.0, 1.0]
    """
    time = sentences.words.shape[1]
    before = torch.ones(time, time, dtype=torch.bool, device=sentences.words.device).tril(-1)
    counted = [sentences.words.new_zeros(0, dtype=torch.float32)]
    for start in range(0, len(sentences.lengths), CAPTIONS_AT_ONCE):
        rows = slice(start, start + CAPTIONS_AT_ONCE)
        pairs = pack_ngrams(codes(Sentences(sentences.words[rows], sentences.lengths[rows])))[:, 1]
        is_again = ((pairs[:, :, None] == pairs[:, None, :]) & before).any(-1) & (pairs != NO_NGRAM)
        counted.append(is_again.sum(-1, dtype=torch.float32))
    return torch.cat(counted)
