"""What the systems without a gate have in common: they say words, and a pointer means nothing to them."""

from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from sct.baselines.plain_speaker import PlainSpeaker
from sct.decoding.contract import Step
from sct.model.config import CaptionerConfig
from sct.model.inputs import ControlInputs
from sct.model.parts import lstm_step
from sct.model.products import DENSE, Products, linear
from sct.model.system import CaptioningSystem, Followed


class Memory(NamedTuple):
    """What an LSTM layer remembers."""

    hidden: Float[Tensor, "rows hidden"]
    cell: Float[Tensor, "rows hidden"]

    def select(self, rows: Int[Tensor, " chosen"]) -> "Memory":
        """That of the chosen rows."""
        return Memory(self.hidden.index_select(0, rows), self.cell.index_select(0, rows))


def no_memory(rows: int, size: int, like: Tensor) -> Memory:
    """Before the first step."""
    zeros = like.new_zeros(rows, size)
    return Memory(zeros, zeros)


class Layer(nn.LSTMCell):
    """An LSTM layer whose input may come in parts; it works in whatever precision its products come in."""

    def remember(self, inputs: Float[Tensor, "rows inputs"], memory: Memory) -> Memory:
        """Take one step."""
        gates = functional.linear(inputs, self.weight_ih, self.bias_ih)
        more = functional.linear(memory.hidden, self.weight_hh, self.bias_hh)
        return Memory(*lstm_step(gates, more, memory.cell))


class ToWords(nn.Linear):
    """Scores of all words, however many there are."""

    def forward(self, rows: Float[Tensor, "rows hidden"]) -> Float[Tensor, "rows words"]:
        """One score for each word."""
        return linear(rows, self.weight, self.bias)


class Heard(NamedTuple):
    """What a step leaves: the vector that words are told from, and the state to go on with."""

    hidden: Float[Tensor, "rows hidden"]
    state: Any


class WordSystem(CaptioningSystem):
    """A captioner that says words alone, each from one vector."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocabulary_size, config.word_size)
        self.output = ToWords(config.hidden_size, config.vocabulary_size)

    def reset_parameters(self) -> None:
        """Weights as ours has them at the start, so that no system is ahead by its first weights."""
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                nn.init.zeros_(parameter)
            elif name.endswith("weight_hh"):
                for block in parameter.data.split(parameter.shape[1]):
                    nn.init.orthogonal_(block)
            else:
                nn.init.xavier_normal_(parameter)

    @abstractmethod
    def hear(self, tokens: Int[Tensor, " rows"], state: Any) -> Heard:
        """Take in the last words."""

    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: Any) -> Step:  # noqa: ARG002
        """What comes after the last words; there is nothing to shift."""
        heard = self.hear(tokens, state)
        return Step(torch.log_softmax(self.output(heard.hidden), dim=1, dtype=torch.float32), None, heard.state)

    def follow(
        self,
        inputs: ControlInputs,
        words: Int[Tensor, "examples time_and_one"],
        slots: Int[Tensor, "examples time"],  # noqa: ARG002
        *,
        label_smoothing: float = 0.0,
        is_truth: bool = False,  # noqa: ARG002
    ) -> Followed:
        """Take one step after the other, and tell all words at once."""
        state = self.begin(inputs.to(words.device, self.working_dtype()))
        return Followed(-self.lost(words, state, label_smoothing), None)

    def lost(
        self, words: Int[Tensor, "examples time_and_one"], state: Any, label_smoothing: float = 0.0
    ) -> Float[Tensor, "examples time"]:
        """Cross-entropy of each word after the first, said from a state."""
        all_hidden = []
        for tokens in words[:, :-1].unbind(1):
            hidden, state = self.hear(tokens, state)
            all_hidden.append(hidden)
        logits = self.output(torch.cat(all_hidden)).float()
        lost = functional.cross_entropy(
            logits, words[:, 1:].T.flatten(), reduction="none", label_smoothing=label_smoothing
        )
        return lost.view(-1, len(words)).T

    def working_dtype(self) -> torch.dtype:
        """The precision of products: that of autocast, or of the weights."""
        device = self.output.weight.device.type
        return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else self.output.weight.dtype

    def speaker(self, products: Products = DENSE, dtype: torch.dtype = torch.float32) -> PlainSpeaker:
        """A copy in this precision."""
        return PlainSpeaker(self, products, dtype)
