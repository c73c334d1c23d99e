"""Rewards of sampled captions, CIDEr-D and noun alignment (NW), on token ids and on the device.

Tables and references are prepared once; scoring then gathers rows without synchronising with the device, so that a
CUDA graph can capture it. The same metrics exist in numpy on text (``sct.metrics.cider``,
``sct.metrics.noun_alignment``): the pair is deliberate, and tests hold both to the same scores.
"""

from sct.training.rewards.alignment import AlignmentReferences, AlignmentReward
from sct.training.rewards.cider import CiderReferences, CiderReward
from sct.training.rewards.ngrams import InverseDocumentFrequencies, repeated_bigrams
from sct.training.rewards.token_sequences import TokenSequences, append_eos, strip_special_tokens

__all__ = [
    "AlignmentReferences",
    "AlignmentReward",
    "CiderReferences",
    "CiderReward",
    "InverseDocumentFrequencies",
    "TokenSequences",
    "append_eos",
    "repeated_bigrams",
    "strip_special_tokens",
]
