"""FC-2K (Rennie et al. 2017): one LSTM layer with maxout, which reads the image descriptor before the first word."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sct.models.baselines.base import LSTMCaptioner, LSTMState, StepHidden, zero_state
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.linear import DeferredGradLinear


@dataclass(frozen=True, slots=True, eq=False)
class SingleLSTMState:
    """State of a captioner with one LSTM layer."""

    example: Int[Tensor, " rows"]
    lstm: LSTMState

    def select(self, rows: Int[Tensor, " chosen"]) -> "SingleLSTMState":
        """State of the chosen rows."""
        return SingleLSTMState(self.example.index_select(0, rows), self.lstm.select(rows))


class MaxoutLSTMCell(nn.Module):
    """LSTM cell whose candidate is the maximum of two linear functions instead of a tanh."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.from_input = nn.Linear(input_size, 5 * hidden_size)
        self.from_hidden = nn.Linear(hidden_size, 5 * hidden_size, bias=False)

    def step(self, inputs: Float[Tensor, "rows inputs"], state: LSTMState) -> LSTMState:
        """Advance by one step."""
        return self.update(self.from_input(inputs) + self.from_hidden(state.hidden), state)

    @staticmethod
    def update(gates: Float[Tensor, "rows gates"], state: LSTMState) -> LSTMState:
        """New state from the gate pre-activations."""
        input_gate, forget_gate, output_gate, candidate, other_candidate = gates.chunk(5, dim=1)
        new = torch.sigmoid(input_gate) * torch.maximum(candidate, other_candidate)
        cell = new + torch.sigmoid(forget_gate) * state.cell
        return LSTMState(torch.sigmoid(output_gate) * torch.tanh(cell), cell)


class FC2K(LSTMCaptioner):
    """Captions the image descriptor; regions and control are ignored."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__(config)
        self.image_projection = nn.Linear(config.feature_size, config.word_size)
        self.lstm = MaxoutLSTMCell(config.word_size, config.hidden_size)
        self.reset_parameters()

    def init_state(self, batch: ControlBatch) -> SingleLSTMState:
        """State after the image, which is read like a word."""
        state = zero_state(len(batch.image), self.config.hidden_size, batch.image)
        return SingleLSTMState(
            torch.arange(len(batch.image), device=batch.image.device),
            self.lstm.step(self.image_projection(batch.image), state),
        )

    def forward_step(self, tokens: Int[Tensor, " rows"], state: SingleLSTMState) -> StepHidden:
        """Hidden vector and state after the previous words."""
        word = self.word_embedding(tokens).to(state.lstm.hidden.dtype)
        lstm = self.lstm.step(word, state.lstm)
        return StepHidden(lstm.hidden, replace(state, lstm=lstm))

    def forward_sequence(
        self, words: Int[Tensor, "rows time"], state: SingleLSTMState
    ) -> Float[Tensor, "time_and_rows hidden"]:
        """Hidden vectors of all steps."""
        lstm = state.lstm.repeat(len(words) // len(state.example))
        dtype, hidden = lstm.hidden.dtype, []
        recurrent = DeferredGradLinear(self.lstm.from_hidden.weight.to(dtype))
        for word_gates in self.lstm.from_input(self.word_embedding(words.T).to(dtype)).unbind(0):
            lstm = self.lstm.update(word_gates + recurrent(lstm.hidden), lstm)
            hidden.append(lstm.hidden)
        return torch.cat(hidden)
