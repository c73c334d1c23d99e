"""The likeliest word and the likeliest shift at every step."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sct.decoding.constraints import Constraints
from sct.decoding.contract import State, StepModel
from sct.decoding.records import Decoded
from sct.decoding.settings import Settings
from sct.decoding.walk import Chooser, walk


@torch.no_grad()
def greedy(model: StepModel, state: State, settings: Settings, constraints: Constraints | None = None) -> Decoded:
    """One caption an example: the paper's baseline for self-critical training.

    A beam of 1 is not quite the same: it lets an end token, which pays for no shift, compete on the joint score.
    """
    return walk(model, state, settings, Chooser(_likeliest, _likeliest), constraints)


def _likeliest(log_probs: Float[Tensor, "examples walks actions"]) -> Int[Tensor, "examples walks"]:
    return log_probs.argmax(-1)
