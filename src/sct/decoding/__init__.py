"""Greedy, sampled and joint beam search over words and shifts, for any model that implements ``StepModel``.

The package knows nothing about images or vocabularies.
"""

from sct.decoding.beam import beam_search
from sct.decoding.config import SearchConfig
from sct.decoding.constraints import ConstraintConfig, Constraints
from sct.decoding.interface import SHIFT, STAY, State, Step, StepModel
from sct.decoding.output import Decoded
from sct.decoding.sampling import greedy, rollout, sample

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
    "rollout",
    "sample",
]
