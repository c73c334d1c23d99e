"""Searching for captions: greedy, sampling and joint beam search, over any captioner that speaks step by step.

It knows no images, and of the rest of the project nothing but its error.
"""

from sct.decoding.beam import beam_search
from sct.decoding.config import SearchConfig
from sct.decoding.constraints import ConstraintConfig, Constraints
from sct.decoding.interface import SHIFT, STAY, State, Step, StepModel
from sct.decoding.output import Decoded
from sct.decoding.sampling import greedy, sample

__all__ = [
    "SHIFT",
    "STAY",
    "ConstraintConfig",
    "Constraints",
    "Decoded",
    "SearchConfig",
    "State",
    "Step",
    "StepModel",
    "beam_search",
    "greedy",
    "sample",
]
