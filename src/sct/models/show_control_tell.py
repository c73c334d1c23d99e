"""Show, Control and Tell (section 3.1): the readable implementation, which follows the paper's equations.

Training and inference use ``sct.models.fast_cell``, which computes the same numbers.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sct.decoding.interface import Step
from sct.errors import InputError
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.interface import CaptionModel, Decoder, TeacherForcedOutput, TeacherForcingInputs
from sct.models.linear import DENSE, LinearBackend
from sct.models.modules import (
    AdditiveAttention,
    AttentionOutput,
    Gate,
    Sentinel,
    SentinelScore,
    attend,
    paper_gate,
    reference_gate,
)


@dataclass(frozen=True, slots=True, eq=False)
class CaptionerState:
    """Recurrent state and pointer of each row; what does not change over time is shared between states."""

    batch: ControlBatch
    keys: Float[Tensor, "regions attention"]
    """Attention key of each region."""
    example: Int[Tensor, " rows"]
    pointer: Int[Tensor, " rows"]
    attention_lstm: tuple[Float[Tensor, "rows hidden"], Float[Tensor, "rows hidden"]]
    """Hidden and cell state."""
    language_lstm: tuple[Float[Tensor, "rows hidden"], Float[Tensor, "rows hidden"]]
    """Hidden and cell state."""

    def select(self, rows: Int[Tensor, " chosen"]) -> "CaptionerState":
        """State of the chosen rows."""
        return replace(
            self,
            example=self.example[rows],
            pointer=self.pointer[rows],
            attention_lstm=(self.attention_lstm[0][rows], self.attention_lstm[1][rows]),
            language_lstm=(self.language_lstm[0][rows], self.language_lstm[1][rows]),
        )


class StepOutput(NamedTuple):
    """Everything that one step computes."""

    word_log_probs: Float[Tensor, "rows words"]
    shift_log_probs: Float[Tensor, "rows 2"]
    attention: AttentionOutput
    state: CaptionerState


class TeacherForcedLogProbs(NamedTuple):
    """Log-probabilities of all words and shifts along given captions."""

    word_log_probs: Float[Tensor, "captions time words"]
    shift_log_probs: Float[Tensor, "captions time 2"]


class ShowControlTell(CaptionModel):
    """Two-layer LSTM with adaptive attention over the region set under a pointer, and a gate that shifts the pointer.

    Sentinels and gate are handed in; ``build_show_control_tell`` chooses them. Without a visual sentinel it attends
    to regions only; without a chunk sentinel the visual one also feeds the gate.
    """

    supports_soft_targets = True

    def __init__(
        self,
        config: CaptionerConfig,
        *,
        visual_sentinel: Sentinel | None,
        visual_score: SentinelScore | None,
        chunk_sentinel: Sentinel | None,
        chunk_score: SentinelScore | None,
        gate: Gate,
        chunk_reads_new_state: bool,
    ) -> None:
        super().__init__()
        if visual_sentinel is None and chunk_sentinel is None:
            raise InputError("got no sentinel, expected a visual or a chunk sentinel: the gate needs one")
        self.config = config
        hidden, features = config.hidden_size, config.feature_size
        self.word_embedding = nn.Embedding(config.vocabulary_size, config.word_size)
        self.attention_lstm = nn.LSTMCell(hidden + features + config.word_size, hidden)
        self.language_lstm = nn.LSTMCell(hidden + features * (2 if config.image_in_language_lstm else 1), hidden)
        self.attention = AdditiveAttention(features, hidden, config.attention_size)
        self.visual_sentinel, self.visual_score = visual_sentinel, visual_score
        self.chunk_sentinel, self.chunk_score = chunk_sentinel, chunk_score
        self.chunk_reads_new_state = chunk_reads_new_state
        # Eq. 10 adds the sentinel to regions of another size; like the authors' code, this projects it to theirs.
        self.sentinel_projection = None if visual_sentinel is None else nn.Linear(hidden, features)
        self.gate = gate
        self.vocab_projection = nn.Linear(hidden, config.vocabulary_size)
        self.reset_parameters()

    def init_state(self, batch: ControlBatch) -> CaptionerState:
        """State before the first word, one row per example."""
        batch = batch.with_end_slot(self.config)
        num_examples, device = len(batch.image), batch.image.device
        zeros = batch.image.new_zeros(num_examples, self.config.hidden_size)
        return CaptionerState(
            batch,
            self.attention.region_key(batch.regions),
            torch.arange(num_examples, device=device),
            torch.zeros(num_examples, dtype=torch.long, device=device),
            (zeros, zeros),
            (zeros, zeros),
        )

    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: CaptionerState) -> Step:
        """Move the pointer by the previous shifts (Eq. 1) and predict the next words and shifts."""
        last = state.batch.num_slots[state.example] - 1
        output = self.forward_step(tokens, replace(state, pointer=torch.minimum(state.pointer + shifts, last)))
        return Step(output.word_log_probs, output.shift_log_probs, output.state)

    def forward_step(self, tokens: Int[Tensor, " rows"], state: CaptionerState) -> StepOutput:
        """One step with the pointer where it is, Eq. 2-10."""
        batch, row = state.batch, state.example
        members, mask = batch.set_rows[row, state.pointer], batch.set_mask[row, state.pointer]
        previous_hidden, image = state.attention_lstm[0], batch.image[row]
        lstm_input = torch.cat([state.language_lstm[0], image, self.word_embedding(tokens)], dim=1)
        hidden, cell = self.attention_lstm(lstm_input, state.attention_lstm)

        query = self.attention.query(hidden)
        region_scores = self.attention(state.keys[members], query)
        visual_value = visual_score = None
        if self.visual_sentinel is not None and self.visual_score is not None and self.sentinel_projection is not None:
            visual = self.visual_sentinel(lstm_input, previous_hidden, cell)
            visual_score = self.visual_score(visual, query, self.attention.score)
            visual_value = self.sentinel_projection(visual)
        attention = attend(batch.regions[members], region_scores, mask, visual_value, visual_score)

        if self.chunk_sentinel is not None and self.chunk_score is not None:
            chunk = self.chunk_sentinel(lstm_input, hidden if self.chunk_reads_new_state else previous_hidden, cell)
            gate_score = self.chunk_score(chunk, query, self.attention.score)
        else:
            assert visual_score is not None
            gate_score = visual_score
        shift_log_probs = self.gate(gate_score, region_scores, mask)

        language_input = [hidden, attention.context] + [image] * self.config.image_in_language_lstm
        language_lstm = self.language_lstm(torch.cat(language_input, dim=1), state.language_lstm)
        word_log_probs = torch.log_softmax(self.vocab_projection(language_lstm[0]), dim=1)
        new_state = replace(state, attention_lstm=(hidden, cell), language_lstm=language_lstm)
        return StepOutput(word_log_probs, shift_log_probs, attention, new_state)

    def teacher_forced_log_probs(
        self, batch: ControlBatch, tokens: Int[Tensor, "captions time"], slots: Int[Tensor, "captions time"]
    ) -> TeacherForcedLogProbs:
        """Log-probabilities after each of the given tokens with the pointer on ``slots``, one step after the other."""
        state = self.init_state(batch)
        words, shifts = [], []
        for time in range(tokens.shape[1]):
            output = self.forward_step(tokens[:, time], replace(state, pointer=slots[:, time]))
            state = output.state
            words.append(output.word_log_probs)
            shifts.append(output.shift_log_probs)
        return TeacherForcedLogProbs(torch.stack(words, dim=1), torch.stack(shifts, dim=1))

    def _teacher_force(self, inputs: TeacherForcingInputs) -> TeacherForcedOutput:
        from sct.models.teacher_forcing import teacher_force  # noqa: PLC0415

        return teacher_force(self, inputs)

    def for_inference(self, backend: LinearBackend = DENSE, dtype: torch.dtype = torch.float32) -> Decoder:
        """Copy of the current weights as a ``FastDecoder``."""
        from sct.models.fast_decoder import FastDecoder  # noqa: PLC0415

        return FastDecoder(self, backend, dtype)


def build_show_control_tell(config: CaptionerConfig) -> ShowControlTell:
    """Model of a config: the paper's, with both sentinels, or one of its two single-sentinel ablations.

    In reference mode sentinels have biases and score vectors of their own, the chunk sentinel reads the new hidden
    state (in the paper: the previous one), and the gate is the authors'.
    """
    is_reference = config.mode == "reference"
    lstm_input_size = config.hidden_size + config.feature_size + config.word_size

    def sentinel() -> Sentinel:
        return Sentinel(lstm_input_size, config.hidden_size, bias=is_reference)

    def score() -> SentinelScore:
        return SentinelScore(config.hidden_size, config.attention_size, own_vector=is_reference)

    has_visual, has_chunk = config.variant != "no_visual_sentinel", config.variant != "single_sentinel"
    return ShowControlTell(
        config,
        visual_sentinel=sentinel() if has_visual else None,
        visual_score=score() if has_visual else None,
        chunk_sentinel=sentinel() if has_chunk else None,
        chunk_score=score() if has_chunk else None,
        gate=reference_gate if is_reference else paper_gate,
        chunk_reads_new_state=is_reference,
    )
