"""Controllable LSTM (section 4.3): no attention; an LSTM reads the regions of the control before the first word.

Its last hidden state is concatenated to the image descriptor.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.models.baselines.base import (
    DeferredLSTM,
    LSTMCaptioner,
    LSTMLayer,
    LSTMState,
    StepHidden,
    repeat_rows,
    zero_state,
)
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.modules import MASKED


@dataclass(frozen=True, slots=True, eq=False)
class ControllableLSTMState:
    """States of both LSTM layers, and what they are conditioned on."""

    conditioning: Float[Tensor, "examples conditioning"]
    """Image descriptor and encoded control."""
    example: Int[Tensor, " rows"]
    first_lstm: LSTMState
    language_lstm: LSTMState

    def select(self, rows: Int[Tensor, " chosen"]) -> "ControllableLSTMState":
        """State of the chosen rows."""
        return replace(
            self,
            example=self.example.index_select(0, rows),
            first_lstm=self.first_lstm.select(rows),
            language_lstm=self.language_lstm.select(rows),
        )


class ControllableLSTM(LSTMCaptioner):
    """The two LSTM layers of Up-Down without attention, conditioned on one vector of the whole control."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__(config)
        hidden = config.hidden_size
        conditioning = config.feature_size + hidden
        self.control_lstm = LSTMLayer(config.feature_size, hidden)
        self.first_lstm = LSTMLayer(hidden + conditioning + config.word_size, hidden)
        self.language_lstm = LSTMLayer(hidden + conditioning * config.image_in_language_lstm, hidden)
        self.reset_parameters()

    def init_state(self, batch: ControlBatch) -> ControllableLSTMState:
        """State before the first word, with the encoded control."""
        zeros = zero_state(len(batch.image), self.config.hidden_size, batch.image)
        return ControllableLSTMState(
            torch.cat([batch.image, self.encode_control(batch)], dim=1),
            torch.arange(len(batch.image), device=batch.image.device),
            zeros,
            zeros,
        )

    def encode_control(self, batch: ControlBatch) -> Float[Tensor, "examples hidden"]:
        """Last hidden state after all regions of all sets in order; zeros for an empty control.

        All controls take as many steps as the longest one. Padding comes first and closes all gates, so the state
        stays zero until the first region.
        """
        rows, mask = left_pad(batch.set_rows.flatten(1), batch.set_mask.flatten(1))
        lstm = DeferredLSTM(self.control_lstm, recurrent=0, static=[self.config.feature_size], dtype=batch.image.dtype)
        regions = batch.regions.index_select(0, rows.T.flatten())
        gates = lstm.project_static(regions.view(*rows.T.shape, -1)).masked_fill_(~mask.T[..., None], MASKED)
        state = zero_state(len(rows), self.config.hidden_size, batch.image)
        for step_gates in gates.unbind(0):
            state = lstm.step([], step_gates, state)
        return state.hidden

    def forward_step(self, tokens: Int[Tensor, " rows"], state: ControllableLSTMState) -> StepHidden:
        """Hidden vector and state after the previous words."""
        conditioning = state.conditioning.index_select(0, state.example)
        word = self.word_embedding(tokens).to(conditioning.dtype)
        first = self.first_lstm.step(
            torch.cat([state.language_lstm.hidden, conditioning, word], dim=1), state.first_lstm
        )
        language_input = [first.hidden] + [conditioning] * self.config.image_in_language_lstm
        language = self.language_lstm.step(torch.cat(language_input, dim=1), state.language_lstm)
        return StepHidden(language.hidden, replace(state, first_lstm=first, language_lstm=language))

    def forward_sequence(
        self, words: Int[Tensor, "rows time"], state: ControllableLSTMState
    ) -> Float[Tensor, "time_and_rows hidden"]:
        """Hidden vectors of all steps."""
        times, size, dtype = len(words) // len(state.example), self.config.hidden_size, state.conditioning.dtype
        conditioning = repeat_rows(state.conditioning, times)
        width, in_language = conditioning.shape[1], self.config.image_in_language_lstm
        first_lstm = DeferredLSTM(self.first_lstm, recurrent=size, static=[width, self.config.word_size], dtype=dtype)
        language_lstm = DeferredLSTM(self.language_lstm, recurrent=size, static=[width] * in_language, dtype=dtype)
        language_gates = language_lstm.project_static(conditioning) if in_language else None
        first, language, hidden = state.first_lstm.repeat(times), state.language_lstm.repeat(times), []
        for gates in first_lstm.project_static(conditioning, self.word_embedding(words.T).to(dtype)).unbind(0):
            first = first_lstm.step([language.hidden], gates, first)
            language = language_lstm.step([first.hidden], language_gates, language)
            hidden.append(language.hidden)
        return torch.cat(hidden)


def left_pad(
    rows: Int[Tensor, "examples places"], mask: Bool[Tensor, "examples places"]
) -> tuple[Int[Tensor, "examples places"], Bool[Tensor, "examples places"]]:
    """Move padding to the front; real entries keep their order.

    >>> rows, mask = left_pad(torch.tensor([[4, 0, 7, 5]]), torch.tensor([[True, False, True, True]]))
    >>> rows.tolist(), mask.tolist()
    ([[0, 4, 7, 5]], [[False, True, True, True]])
    """
    order = mask.long().sort(dim=1, stable=True).indices
    return rows.gather(1, order), mask.gather(1, order)
