"""What a captioner looked at while it said a caption: one more pass over the words that a search found."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sct.model.captioner import Captioner
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
    captioner: Captioner,
    inputs: ControlInputs,
    example: Int[Tensor, " captions"],
    words: Int[Tensor, "captions time"],
    shifts: Int[Tensor, "captions time"],
    begin: int,
) -> Explanation:
    """Say captions again, each on the control of its example, and keep what a search throws away."""
    state = captioner.begin(inputs).select(example)
    last = inputs.num_slots[example] - 1
    before = torch.full_like(words[:, 0], begin)
    pointer = torch.zeros_like(before)
    steps = []
    for time in range(words.shape[1]):
        thought = captioner.think(before, replace(state, pointer=pointer))
        steps.append((pointer, thought.attended, thought.shift_log_probs[:, 1].exp()))
        state, before = thought.state, words[:, time]
        pointer = torch.minimum(pointer + shifts[:, time], last)
    return Explanation(
        torch.stack([place for place, _, _ in steps], dim=1),
        torch.stack([attended.region_weights for _, attended, _ in steps], dim=1),
        torch.stack([attended.sentinel_weight for _, attended, _ in steps], dim=1),
        torch.stack([probability for _, _, probability in steps], dim=1),
    )
