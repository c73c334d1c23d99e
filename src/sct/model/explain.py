"""What a captioner looked at while it said a caption: one more pass over the words that a search found."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sct.decoding.contract import SHIFT
from sct.model.fused import FusedCaptioner
from sct.model.inputs import ControlInputs


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """Per word of each caption."""

    pointer: Int[Tensor, "captions time"]
    attention: Float[Tensor, "captions time members"]
    sentinel_weight: Float[Tensor, "captions time"]
    shift_probability: Float[Tensor, "captions time"]


@torch.inference_mode()
def explain(
    captioner: FusedCaptioner,
    inputs: ControlInputs,
    example: Int[Tensor, " captions"],
    words: Int[Tensor, "captions time"],
    shifts: Int[Tensor, "captions time"],
    begin: int,
) -> Explanation:
    """Say captions again, each on the control of its example, and keep what a search throws away."""
    state = captioner.begin(inputs).select(example)
    last_word, last_shift = torch.full_like(words[:, 0], begin), torch.zeros_like(shifts[:, 0])
    pointers, looks, probabilities = [], [], []
    for time in range(words.shape[1]):
        step = captioner.step(last_word, last_shift, state)
        state, last_word, last_shift = step.state, words[:, time], shifts[:, time]
        assert step.shift_log_probs is not None
        pointers.append(state.pointer)
        looks.append(state.looked)
        probabilities.append(step.shift_log_probs[:, SHIFT].exp())
    looked = torch.stack(looks, dim=1).float()
    return Explanation(
        torch.stack(pointers, dim=1), looked[..., :-1], looked[..., -1], torch.stack(probabilities, dim=1)
    )
