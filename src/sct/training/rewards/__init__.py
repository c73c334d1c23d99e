"""What a sampled caption earns: CIDEr-D and noun alignment, on word ids, on the device.

Tables and references are prepared once. A step then picks rows of them and never waits for the device, so that a CUDA
graph can record it.
"""

from sct.training.rewards.alignment import AlignmentReferences, AlignmentReward
from sct.training.rewards.cider import CiderReferences, CiderReward
from sct.training.rewards.ngrams import NgramWeights
from sct.training.rewards.repeats import repeated_pairs
from sct.training.rewards.sentences import Sentences, spoken_words, with_end

__all__ = [
    "AlignmentReferences",
    "AlignmentReward",
    "CiderReferences",
    "CiderReward",
    "NgramWeights",
    "Sentences",
    "repeated_pairs",
    "spoken_words",
    "with_end",
]
