"""The captioner: two LSTM layers that predict words and shifts from one network (section 3.1).

Put a captioner together: the paper's model and its two ablations are three assemblies of the same parts.
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
    Attended,
    Compatibility,
    Gate,
    Sentinel,
    SentinelScore,
    attend,
    paper_gate,
    reference_gate,
)


@dataclass(frozen=True, slots=True, eq=False)
class CaptionerState:
    """Memory of both layers and the pointer of each row; what does not change over time is shared, not copied."""

    inputs: ControlBatch
    keys: Float[Tensor, "regions attention"]
    """What attention compares with, of each region."""
    example: Int[Tensor, " rows"]
    pointer: Int[Tensor, " rows"]
    bottom: tuple[Float[Tensor, "rows hidden"], Float[Tensor, "rows hidden"]]
    top: tuple[Float[Tensor, "rows hidden"], Float[Tensor, "rows hidden"]]

    def select(self, rows: Int[Tensor, " chosen"]) -> "CaptionerState":
        """The state of the chosen rows."""
        return replace(
            self,
            example=self.example[rows],
            pointer=self.pointer[rows],
            bottom=(self.bottom[0][rows], self.bottom[1][rows]),
            top=(self.top[0][rows], self.top[1][rows]),
        )


class StepOutput(NamedTuple):
    """All that one step computes."""

    word_log_probs: Float[Tensor, "rows words"]
    shift_log_probs: Float[Tensor, "rows 2"]
    attended: Attended
    state: CaptionerState


class TeacherForced(NamedTuple):
    """Log-probabilities of words and shifts along given captions."""

    word_log_probs: Float[Tensor, "examples time words"]
    shift_log_probs: Float[Tensor, "examples time 2"]


class ShowControlTell(CaptionModel):
    """Says a caption word by word while a pointer walks along the control.

    Its sentinels and its gate are handed in (``sct.models.show_control_tell`` makes them): without a visual one it attends to
    regions alone, without a chunk sentinel the visual one decides the shift as well.
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
            raise InputError("a captioner without any sentinel cannot decide when to shift: expected at least one")
        self.config = config
        hidden, features = config.hidden_size, config.feature_size
        self.words = nn.Embedding(config.vocabulary_size, config.word_size)
        self.bottom = nn.LSTMCell(hidden + features + config.word_size, hidden)
        self.top = nn.LSTMCell(hidden + features * (2 if config.image_in_top_layer else 1), hidden)
        self.compatibility = Compatibility(features, hidden, config.attention_size)
        self.visual_sentinel, self.visual_score = visual_sentinel, visual_score
        self.chunk_sentinel, self.chunk_score = chunk_sentinel, chunk_score
        self.chunk_reads_new_state = chunk_reads_new_state
        # Eq. 10 adds the sentinel to regions of another size; like the authors' code, this brings it to theirs.
        self.sentinel_value = None if visual_sentinel is None else nn.Linear(hidden, features)
        self.gate = gate
        self.output = nn.Linear(hidden, config.vocabulary_size)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-normal weights, orthogonal recurrent ones, zero biases (the authors' choice; the paper names none)."""
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                nn.init.zeros_(parameter)
            elif name.endswith("weight_hh"):
                for block in parameter.data.split(self.config.hidden_size):
                    nn.init.orthogonal_(block)
            else:
                nn.init.xavier_normal_(parameter)

    def init_state(self, batch: ControlBatch) -> CaptionerState:
        """The state before the first word, one row for each example."""
        inputs = batch.with_end_slot(self.config)
        num_examples = len(inputs.image)
        device = inputs.image.device
        zeros = inputs.image.new_zeros(num_examples, self.config.hidden_size)
        return CaptionerState(
            inputs,
            self.compatibility.region_key(inputs.regions),
            torch.arange(num_examples, device=device),
            torch.zeros(num_examples, dtype=torch.long, device=device),
            (zeros, zeros),
            (zeros, zeros),
        )

    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: CaptionerState) -> Step:
        """Move the pointer by the last shifts (Eq. 1), and say what comes after the last words."""
        last = state.inputs.num_slots[state.example] - 1
        moved = replace(state, pointer=torch.minimum(state.pointer + shifts, last))
        thought = self.think(tokens, moved)
        return Step(thought.word_log_probs, thought.shift_log_probs, thought.state)

    def think(self, tokens: Int[Tensor, " rows"], state: CaptionerState) -> StepOutput:
        """One step with the pointer where it is."""
        inputs, row = state.inputs, state.example
        members, mask = inputs.set_rows[row, state.pointer], inputs.set_mask[row, state.pointer]
        (hidden_1, _), (hidden_2, _) = state.bottom, state.top
        image = inputs.image[row]
        bottom_input = torch.cat([hidden_2, image, self.words(tokens)], dim=1)
        new_hidden, memory = self.bottom(bottom_input, state.bottom)

        query = self.compatibility.query(new_hidden)
        region_scores = self.compatibility(state.keys[members], query)
        value = visual_score = None
        if self.visual_sentinel is not None and self.visual_score is not None and self.sentinel_value is not None:
            visual = self.visual_sentinel(bottom_input, hidden_1, memory)
            visual_score = self.visual_score(visual, query, self.compatibility.score)
            value = self.sentinel_value(visual)
        attended = attend(inputs.regions[members], region_scores, mask, value, visual_score)

        if self.chunk_sentinel is not None and self.chunk_score is not None:
            read = new_hidden if self.chunk_reads_new_state else hidden_1
            chunk = self.chunk_sentinel(bottom_input, read, memory)
            gate_score = self.chunk_score(chunk, query, self.compatibility.score)
        else:
            assert visual_score is not None
            gate_score = visual_score
        shift_log_probs = self.gate(gate_score, region_scores, mask)

        top_parts = [new_hidden, attended.context] + [image] * self.config.image_in_top_layer
        top = self.top(torch.cat(top_parts, dim=1), state.top)
        word_log_probs = torch.log_softmax(self.output(top[0]), dim=1)
        return StepOutput(
            word_log_probs, shift_log_probs, attended, replace(state, bottom=(new_hidden, memory), top=top)
        )

    def teacher_forced(
        self,
        inputs: ControlBatch,
        tokens: Int[Tensor, "examples time"],
        slots: Int[Tensor, "examples time"],
    ) -> TeacherForced:
        """Log-probabilities after each of the given tokens, with the pointer on the given slots."""
        state = self.init_state(inputs)
        words, shifts = [], []
        for time in range(tokens.shape[1]):
            thought = self.think(tokens[:, time], replace(state, pointer=slots[:, time]))
            state = thought.state
            words.append(thought.word_log_probs)
            shifts.append(thought.shift_log_probs)
        return TeacherForced(torch.stack(words, dim=1), torch.stack(shifts, dim=1))

    def _teacher_force(self, inputs: TeacherForcingInputs) -> TeacherForcedOutput:
        from sct.models.fast_cell import teacher_force  # noqa: PLC0415

        return teacher_force(self, inputs)

    def for_inference(self, backend: LinearBackend = DENSE, dtype: torch.dtype = torch.float32) -> Decoder:
        """Copy as a ``FastDecoder``."""
        from sct.models.fast_cell import FastDecoder  # noqa: PLC0415

        return FastDecoder(self, backend, dtype)


def build_show_control_tell(config: CaptionerConfig) -> ShowControlTell:
    """Make the parts that a configuration names and hand them to the network.

    ``ours`` has both sentinels, ``single_sentinel`` the visual one alone, ``no_visual_sentinel`` the chunk sentinel
    alone. In reference mode sentinels have biases and output vectors of their own, the chunk sentinel reads the new
    hidden state (the paper: the previous one), and the gate is the authors'.
    """
    is_reference = config.mode == "reference"
    inputs = config.hidden_size + config.feature_size + config.word_size

    def sentinel() -> Sentinel:
        return Sentinel(inputs, config.hidden_size, bias=is_reference)

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
