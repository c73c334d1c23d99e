"""What a sampled caption earns: CIDEr-D and noun alignment, on word ids, on the device.

Tables and references are prepared once. A step then picks rows of them and never waits for the device, so that a CUDA
graph can record it.
"""

from sct.training.rewards.alignment import AlignmentReferences, AlignmentReward
from sct.training.rewards.cider import CiderReferences, CiderReward
from sct.training.rewards.ngrams import NgramWeights, repeated_bigrams
from sct.training.rewards.token_sequences import TokenSequences, append_eos, strip_special_tokens

__all__ = [
    "AlignmentReferences",
    "AlignmentReward",
    "CiderReferences",
    "CiderReward",
    "NgramWeights",
    "TokenSequences",
    "append_eos",
    "repeated_bigrams",
    "strip_special_tokens",
]
