"""Searching for captions: greedy, sampling and joint beam search, over any captioner that speaks step by step.

It knows no images, and of the rest of the project nothing but its error.
"""

from sct.decoding.beam import beam_search
from sct.decoding.constraints import Constraints
from sct.decoding.contract import SHIFT, STAY, State, Step, StepModel
from sct.decoding.greedy import greedy
from sct.decoding.guarantees import Guarantees
from sct.decoding.records import Decoded
from sct.decoding.sampling import sample
from sct.decoding.settings import Settings

__all__ = [
    "SHIFT",
    "STAY",
    "Constraints",
    "Decoded",
    "Guarantees",
    "Settings",
    "State",
    "Step",
    "StepModel",
    "beam_search",
    "greedy",
    "sample",
]
