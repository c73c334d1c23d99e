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
from sct.model.parts import exact, working_dtype
from sct.model.products import DENSE, Products, linear
from sct.model.system import CaptioningSystem, Followed


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

    @abstractmethod
    def hear_all(self, words: Int[Tensor, "rows time"], state: Any) -> Float[Tensor, "time_and_rows hidden"]:
        """The vectors that ``hear`` would give for words known beforehand: those of the first step, then the next.

        It starts from the state before the first word, one row for each example. Captions of one example lie together,
        each example has as many, and what can be is computed once for all of them; products learn late.
        """

    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: Any) -> Step:  # noqa: ARG002
        """What comes after the last words; there is nothing to shift."""
        heard = self.hear(tokens, state)
        scores = self.output(heard.hidden)
        return Step(torch.log_softmax(scores, dim=1, dtype=exact(scores.dtype)), None, heard.state)

    def follow(
        self,
        inputs: ControlInputs,
        words: Int[Tensor, "captions time_and_one"],
        slots: Int[Tensor, "captions time"],  # noqa: ARG002
        *,
        label_smoothing: float = 0.0,
        is_truth: bool = False,  # noqa: ARG002
    ) -> Followed:
        """Hear all words, and tell all at once; of each example there may be several captions, one after the other."""
        state = self.begin(inputs.to(words.device, working_dtype(self.output.weight)))
        return Followed(-self.lost(words, state, label_smoothing), None)

    def lost(
        self, words: Int[Tensor, "rows time_and_one"], state: Any, label_smoothing: float = 0.0
    ) -> Float[Tensor, "rows time"]:
        """Cross-entropy of each word after the first, said from a state."""
        return self.lost_from(self.hear_all(words[:, :-1], state), words, label_smoothing)

    def lost_from(
        self,
        hidden: Float[Tensor, "time_and_rows hidden"],
        words: Int[Tensor, "rows time_and_one"],
        label_smoothing: float = 0.0,
    ) -> Float[Tensor, "rows time"]:
        """The same from the vectors that words are told from."""
        scores = self.output(hidden)
        lost = functional.cross_entropy(
            scores.to(exact(scores.dtype)),
            words[:, 1:].T.flatten(),
            reduction="none",
            label_smoothing=label_smoothing,
        )
        return lost.view(-1, len(words)).T

    def speaker(self, products: Products = DENSE, dtype: torch.dtype = torch.float32) -> PlainSpeaker:
        """A copy in this precision."""
        return PlainSpeaker(self, products, dtype)
