"""FC-2K (Rennie et al. 2017): the image comes once, before the first word; one LSTM layer with maxout speaks."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sct.models.baselines.base import Heard, LSTMCaptioner, Memory, no_memory
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.linear import DeferredGradLinear


@dataclass(frozen=True, slots=True, eq=False)
class FcState:
    """Memory of the layer, which has the image in it from the start."""

    example: Int[Tensor, " rows"]
    memory: Memory

    def select(self, rows: Int[Tensor, " chosen"]) -> "FcState":
        """The state of the chosen rows."""
        return FcState(self.example.index_select(0, rows), self.memory.select(rows))


class MaxoutLayer(nn.Module):
    """An LSTM layer whose new memories are the larger of two linear candidates, where others have a tanh."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.from_input = nn.Linear(input_size, 5 * hidden_size)
        self.from_hidden = nn.Linear(hidden_size, 5 * hidden_size, bias=False)

    def remember(self, inputs: Float[Tensor, "rows inputs"], memory: Memory) -> Memory:
        """Take one step."""
        return self.turn(self.from_input(inputs) + self.from_hidden(memory.hidden), memory)

    @staticmethod
    def turn(gates: Float[Tensor, "rows gates"], memory: Memory) -> Memory:
        """The new memory from all that comes into the gates."""
        take, forget, give, one, other = gates.chunk(5, dim=1)
        cell = torch.sigmoid(take) * torch.maximum(one, other) + torch.sigmoid(forget) * memory.cell
        return Memory(torch.sigmoid(give) * torch.tanh(cell), cell)


class Fc2k(LSTMCaptioner):
    """Says words from the image descriptor alone."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__(config)
        self.image = nn.Linear(config.feature_size, config.word_size)
        self.layer = MaxoutLayer(config.word_size, config.hidden_size)
        self.reset_parameters()

    def init_state(self, batch: ControlBatch) -> FcState:
        """The state before the first word: the image has been taken in like a word."""
        memory = no_memory(len(batch.image), self.config.hidden_size, batch.image)
        return FcState(
            torch.arange(len(batch.image), device=batch.image.device),
            self.layer.remember(self.image(batch.image), memory),
        )

    def hear(self, tokens: Int[Tensor, " rows"], state: FcState) -> Heard:
        """Take in the last words."""
        word = self.words(tokens).to(state.memory.hidden.dtype)
        memory = self.layer.remember(word, state.memory)
        return Heard(memory.hidden, replace(state, memory=memory))

    def hear_all(self, words: Int[Tensor, "rows time"], state: FcState) -> Float[Tensor, "time_and_rows hidden"]:
        """The vectors that words are told from, with the shares of the given words computed beforehand."""
        memory = state.memory.repeat(len(words) // len(state.example))
        dtype, all_hidden = memory.hidden.dtype, []
        recurrent = DeferredGradLinear(self.layer.from_hidden.weight.to(dtype))
        for known in self.layer.from_input(self.words(words.T).to(dtype)).unbind(0):
            memory = self.layer.turn(known + recurrent(memory.hidden), memory)
            all_hidden.append(memory.hidden)
        return torch.cat(all_hidden)
