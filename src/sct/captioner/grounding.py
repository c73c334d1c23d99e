"""Convert decoder output to grounded captions.

Attention is recorded during the search or, where that is a CUDA graph, traced by a second pass over the decoded words.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sct.captioner.grounded_caption import CaptionWord, GroundedCaption, ground_words, ungrounded_caption
from sct.decoding import Decoded, SearchConfig
from sct.decoding.interface import SHIFT, Step
from sct.language.vocabulary import Vocabulary
from sct.models.inputs import ControlBatch
from sct.models.interface import Decoder


@dataclass(frozen=True, slots=True, eq=False)
class AttentionTrace:
    """Pointer, attention and gate at each word of decoded captions."""

    pointer: Int[Tensor, "captions time"]
    attention: Float[Tensor, "captions time members"]
    sentinel_weight: Float[Tensor, "captions time"]
    shift_probability: Float[Tensor, "captions time"]


@torch.inference_mode()
def trace_attention(
    decoder: Decoder,
    batch: ControlBatch,
    example: Int[Tensor, " captions"],
    words: Int[Tensor, "captions time"],
    shifts: Int[Tensor, "captions time"],
    bos: int,
) -> AttentionTrace:
    """Replay captions on the controls of their examples and record what beam search discards."""
    state = decoder.init_state(batch).select(example)
    last_word, last_shift = torch.full_like(words[:, 0], bos), torch.zeros_like(shifts[:, 0])
    pointers, weights, probabilities = [], [], []
    for time in range(words.shape[1]):
        step = decoder.step(last_word, last_shift, state)
        state, last_word, last_shift = step.state, words[:, time], shifts[:, time]
        assert step.shift_log_probs is not None
        pointers.append(state.pointer)
        weights.append(state.attention_weights)
        shift_log_probs = step.shift_log_probs[..., SHIFT]
        if shift_log_probs.dim() > 1:  # the gate sees the word
            shift_log_probs = shift_log_probs.gather(1, last_word[:, None]).squeeze(1)
        probabilities.append(shift_log_probs.exp())
    attention = torch.stack(weights, dim=1).float()
    return AttentionTrace(
        torch.stack(pointers, dim=1), attention[..., :-1], attention[..., -1], torch.stack(probabilities, dim=1)
    )


class AttentionRecorder:
    """Decoder that keeps what ``AttentionTrace`` needs of every step and row."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._pointers: list[Int[Tensor, " rows"]] = []
        self._weights: list[Float[Tensor, "rows members_and_sentinel"]] = []
        self._probabilities: list[Float[Tensor, " rows"]] = []

    @property
    def num_steps(self) -> int:
        """Steps recorded so far."""
        return len(self._pointers)

    @property
    def gate_sees_word(self) -> bool:
        """Whether the probability of a shift depends on the next word, so that rows have no single one."""
        return bool(self._pointers) and not self._probabilities

    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: Any) -> Step:
        """Step the decoder."""
        step = self._decoder.step(tokens, shifts, state)
        assert step.shift_log_probs is not None
        self._pointers.append(step.state.pointer)
        self._weights.append(step.state.attention_weights)
        if step.shift_log_probs.dim() == 2:
            self._probabilities.append(step.shift_log_probs[:, SHIFT].exp())
        return step

    def trace(self, decoded: Decoded, max_length: int) -> AttentionTrace:
        """Collect the first steps of decoded captions from the rows that they were in.

        A gate that sees the word has a probability after each; that of the caption's word is in ``decoded``, but not
        after the authors' search (``freeze_finished=False``).
        """
        assert decoded.rows is not None
        rows = decoded.rows.flatten(0, 1)[:, :max_length]

        def collect(steps: list[Tensor]) -> Tensor:
            used = steps[: rows.shape[1]]
            return torch.stack([step.index_select(0, row) for step, row in zip(used, rows.T, strict=True)], dim=1)

        attention = collect(self._weights).float()
        probability = shift_probability(decoded, max_length) if self.gate_sees_word else collect(self._probabilities)
        return AttentionTrace(collect(self._pointers), attention[..., :-1], attention[..., -1], probability)


def shift_probability(decoded: Decoded, max_length: int) -> Float[Tensor, "captions time"]:
    """Probability of SHIFT at each of the first steps of decoded captions, from that of the shift taken."""
    log_probs, shifts = (values.flatten(0, 1)[:, :max_length] for values in (decoded.shift_log_probs, decoded.shifts))
    return torch.where(shifts == SHIFT, log_probs.exp(), -log_probs.expm1())


def build_grounded_captions(
    decoded: Decoded,
    trace: AttentionTrace | None,
    batch: ControlBatch,
    vocabulary: Vocabulary,
    log_probs: Float[Tensor, "examples n_best"],
    nouns: frozenset[str],
) -> list[list[GroundedCaption]]:
    """Convert decoder output to ``GroundedCaption``s, dropping hypotheses that failed.

    Without a trace words and chunks are not grounded. Padding and BOS inside a caption are no words, as in
    ``Vocabulary.decode``.
    """
    examples, n_best, _ = decoded.words.shape
    words, scores = decoded.words.tolist(), log_probs.tolist()
    tokens = SearchConfig()
    lengths = (decoded.token_mask & (decoded.words != tokens.eos)).sum(-1).tolist()
    is_valid = (decoded.scores > -torch.inf).tolist()
    if trace is None:
        return [
            [
                ungrounded_caption(vocabulary.decode(words[row][rank][: lengths[row][rank]]), score)
                for rank, score in enumerate(scores[row])
                if is_valid[row][rank]
            ]
            for row in range(examples)
        ]
    sizes, num_sets = batch.set_mask.sum(-1).tolist(), batch.num_slots.tolist()
    pointer, attention = trace.pointer.tolist(), trace.attention.tolist()
    sentinel, shift = trace.sentinel_weight.tolist(), trace.shift_probability.tolist()
    captions = []
    for example in range(examples):
        found = []
        for rank in range(n_best):
            if not is_valid[example][rank]:
                continue
            row, length = example * n_best + rank, lengths[example][rank]
            times = [time for time in range(length) if words[example][rank][time] not in (tokens.pad, tokens.bos)]
            caption_words = []
            for time in times:
                region_set = min(pointer[row][time], num_sets[example] - 1)
                caption_words.append(
                    CaptionWord(
                        vocabulary.words[words[example][rank][time]],
                        region_set,
                        tuple(attention[row][time][: sizes[example][region_set]]),
                        sentinel[row][time],
                        shift[row][time],
                    )
                )
            # The step of EOS, after the last word, may be in the end slot too.
            after = [length] if length < len(pointer[row]) else []
            in_end_slot = [pointer[row][time] >= num_sets[example] for time in (*times, *after)]
            control_end = in_end_slot.index(True) if True in in_end_slot else None
            found.append(ground_words(caption_words, scores[example][rank], nouns, control_end=control_end))
        captions.append(found)
    return captions
