"""What a captioner looked at while it said a caption: one more pass over the words that a search found.

From what a search found to grounded captions.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sct.captioner.grounded_caption import CaptionWord, GroundedCaption, grounded, ungrounded
from sct.decoding import Decoded, SearchConfig
from sct.decoding.interface import SHIFT
from sct.language.vocabulary import Vocabulary
from sct.models.inputs import ControlBatch
from sct.models.interface import Decoder


@dataclass(frozen=True, slots=True, eq=False)
class AttentionTrace:
    """Per word of each caption."""

    pointer: Int[Tensor, "captions time"]
    attention: Float[Tensor, "captions time members"]
    sentinel_weight: Float[Tensor, "captions time"]
    shift_probability: Float[Tensor, "captions time"]


@torch.inference_mode()
def trace_attention(
    captioner: Decoder,
    inputs: ControlBatch,
    example: Int[Tensor, " captions"],
    words: Int[Tensor, "captions time"],
    shifts: Int[Tensor, "captions time"],
    begin: int,
) -> AttentionTrace:
    """Say captions again, each on the control of its example, and keep what a search throws away."""
    state = captioner.init_state(inputs).select(example)
    last_word, last_shift = torch.full_like(words[:, 0], begin), torch.zeros_like(shifts[:, 0])
    pointers, looks, probabilities = [], [], []
    for time in range(words.shape[1]):
        step = captioner.step(last_word, last_shift, state)
        state, last_word, last_shift = step.state, words[:, time], shifts[:, time]
        assert step.shift_log_probs is not None
        pointers.append(state.pointer)
        looks.append(state.attention_weights)
        probabilities.append(step.shift_log_probs[:, SHIFT].exp())
    looked = torch.stack(looks, dim=1).float()
    return AttentionTrace(
        torch.stack(pointers, dim=1), looked[..., :-1], looked[..., -1], torch.stack(probabilities, dim=1)
    )


def build_grounded_captions(
    decoded: Decoded,
    explanation: AttentionTrace | None,
    inputs: ControlBatch,
    vocabulary: Vocabulary,
    log_probs: Float[Tensor, "examples n_best"],
    nouns: frozenset[str],
) -> list[list[GroundedCaption]]:
    """Turn tensors into records; what stands for a caption that could not be found is left out.

    Without an explanation words rest on nothing, and chunks are grounded nowhere.
    """
    examples, n_best, _ = decoded.words.shape
    words, scores = decoded.words.tolist(), log_probs.tolist()
    spoken = (decoded.token_mask & (decoded.words != SearchConfig().eos)).tolist()
    alive = (decoded.scores > -torch.inf).tolist()
    if explanation is None:
        return [
            [
                ungrounded([vocabulary.words[word] for word, is_said in zip(*said, strict=True) if is_said], score)
                for *said, score, is_alive in zip(words[row], spoken[row], scores[row], alive[row], strict=True)
                if is_alive
            ]
            for row in range(examples)
        ]
    sizes, num_sets = inputs.set_mask.sum(-1).tolist(), inputs.num_slots.tolist()
    pointer, attention = explanation.pointer.tolist(), explanation.attention.tolist()
    sentinel, shift = explanation.sentinel_weight.tolist(), explanation.shift_probability.tolist()
    captions = []
    for example in range(examples):
        found = []
        for rank in range(n_best):
            row = example * n_best + rank
            said = []
            for time in range(sum(spoken[example][rank])):
                region_set = min(pointer[row][time], num_sets[example] - 1)
                said.append(
                    CaptionWord(
                        vocabulary.words[words[example][rank][time]],
                        region_set,
                        tuple(attention[row][time][: sizes[example][region_set]]),
                        sentinel[row][time],
                        shift[row][time],
                    )
                )
            # With the step after the last word, which says the end.
            is_over = [place >= num_sets[example] for place in pointer[row][: len(said) + 1]]
            control_end = is_over.index(True) if True in is_over else None
            if alive[example][rank]:
                found.append(grounded(said, scores[example][rank], nouns, control_end=control_end))
        captions.append(found)
    return captions
