"""How often a caption says again what it has said."""

import torch
from jaxtyping import Float
from torch import Tensor

from sct.training.rewards.ngrams import NO_NGRAM, codes, pack_ngrams
from sct.training.rewards.sentences import Sentences


def repeated_pairs(sentences: Sentences) -> Float[Tensor, " captions"]:
    """Places at which two words follow each other that did so before in the same caption.

    >>> repeated_pairs(Sentences.of_lists([[4, 5, 6, 4, 5], [4, 4, 4]])).tolist()
    [1.0, 1.0]
    """
    pairs = pack_ngrams(codes(sentences))[:, 1]
    before = torch.ones(pairs.shape[1], pairs.shape[1], dtype=torch.bool, device=pairs.device).tril(-1)
    is_again = ((pairs[:, :, None] == pairs[:, None, :]) & before).any(-1) & (pairs != NO_NGRAM)
    return is_again.sum(-1, dtype=torch.float32)
