"""LSTM layers: one step at a time, as captions are said, and laid out for many steps, as they are learned from.

A captioner of any kind for saying captions: a copy in another precision that takes steps as the original does.

What the systems without a gate have in common: they say words, and a pointer means nothing to them.

Systems that can say the same thing in many ways: each way is a manner, and manner 0 is the likeliest.
"""

from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional

from sct.decoding.interface import Step
from sct.errors import InputError
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.interface import CaptionModel, TeacherForcedOutput, TeacherForcingInputs
from sct.models.linear import DENSE, DeferredGradLinear, LinearBackend, linear
from sct.models.modules import compute_dtype, exact, lstm_step
from sct.models.registry import build_model
from sct.storage.skip_init import SkipInit


class Memory(NamedTuple):
    """What an LSTM layer remembers."""

    hidden: Float[Tensor, "rows hidden"]
    cell: Float[Tensor, "rows hidden"]

    def select(self, rows: Int[Tensor, " chosen"]) -> "Memory":
        """That of the chosen rows."""
        return Memory(self.hidden.index_select(0, rows), self.cell.index_select(0, rows))

    def repeat(self, times: int) -> "Memory":
        """That of each row several times in a row."""
        return Memory(repeat_rows(self.hidden, times), repeat_rows(self.cell, times))


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


class LateLayer:
    """A layer for all steps of one forward pass: some inputs come up on the way, others are known before the first.

    What is known is multiplied for all steps at once. What recurs goes through one product at each step, which learns
    late (``sct.models.linear``).
    """

    def __init__(self, layer: Layer, *, recurring: int, known: Sequence[int], dtype: torch.dtype) -> None:
        """Of the layer's inputs the first ``recurring`` are not known before; the sizes of those that are follow."""
        # Taken apart once: the gradient of each part taken alone is a whole weight, full of zeros.
        from_recurring, *self._from_known = layer.weight_ih.to(dtype).split([recurring, *known], dim=1)
        weight = torch.cat([from_recurring, layer.weight_hh.to(dtype)], dim=1)
        self._product = DeferredGradLinear(weight, (layer.bias_ih + layer.bias_hh).to(dtype))
        self._nothing: Tensor | None = None

    def of_known(self, *parts: Float[Tensor, "..."]) -> Float[Tensor, "*steps rows gates"]:
        """What all inputs that are known before add to the gates; one that never changes has rows alone."""
        return reduce(torch.add, map(functional.linear, parts, self._from_known))

    def remember(
        self, recurring: Sequence[Float[Tensor, "rows _"]], known: Float[Tensor, "rows gates"] | None, memory: Memory
    ) -> Memory:
        """Take one step; ``known`` is what ``of_known`` gave for it, None where nothing was known."""
        rows = torch.cat([*recurring, memory.hidden], dim=1) if recurring else memory.hidden
        gates = self._product(rows)
        if known is None:
            self._nothing = known = torch.zeros_like(gates) if self._nothing is None else self._nothing
        return Memory(*lstm_step(gates, known, memory.cell))


def repeat_rows(table: Shaped[Tensor, "rows ..."], times: int) -> Shaped[Tensor, "more_rows ..."]:
    """Each row several times in a row.

    >>> repeat_rows(torch.tensor([3, 4]), 2).tolist()
    [3, 3, 4, 4]
    """
    return table if times == 1 else table.repeat_interleave(times, dim=0)


class InferenceCopy:
    """Decoder that steps a gradient-free copy of a model's weights."""

    has_attention = False

    def __init__(self, model: CaptionModel, backend: LinearBackend = DENSE, dtype: torch.dtype = torch.float32) -> None:
        if backend is not DENSE:
            raise InputError(
                f"got int8 weights for variant {model.config.variant!r}, expected float32 or float16: "
                "int8 exists for Show, Control and Tell only"
            )
        self.config, self.dtype, self.has_latents = model.config, dtype, model.has_latents
        with torch.device("meta"), SkipInit():
            self._model = build_model(model.config)
        # Copied even if the precision stays, so that training the original does not change this copy.
        weights = {name: weight.detach().to(dtype, copy=True) for name, weight in model.state_dict().items()}
        self._model.load_state_dict(weights, assign=True)
        self._model.eval()

    @torch.inference_mode()
    def init_state(self, batch: ControlBatch, latents: Int[Tensor, " examples"] | None = None) -> Any:
        """State before the first word, one row per example."""
        batch = batch.to(batch.image.device, self.dtype)
        if isinstance(self._model, LatentCaptioner):
            return self._model.init_state(batch, latents)
        if latents is not None:
            raise InputError(f"got latents for variant {self.config.variant!r}, which has none: leave them out")
        return self._model.init_state(batch)

    @torch.inference_mode()
    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: Any) -> Step:
        """Step of the copied model."""
        return self._model.step(tokens, shifts, state)


class ToWords(nn.Linear):
    """Scores of all words, however many there are."""

    def forward(self, rows: Float[Tensor, "rows hidden"]) -> Float[Tensor, "rows words"]:
        """One score for each word."""
        return linear(rows, self.weight, self.bias)


class Heard(NamedTuple):
    """What a step leaves: the vector that words are told from, and the state to go on with."""

    hidden: Float[Tensor, "rows hidden"]
    state: Any


class LSTMCaptioner(CaptionModel):
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

    def _teacher_force(self, inputs: TeacherForcingInputs) -> TeacherForcedOutput:
        words = inputs.words
        state = self.init_state(inputs.batch.to(words.device, compute_dtype(self.output.weight)))
        return TeacherForcedOutput(-self.lost(words, state, inputs.label_smoothing), None)

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

    def for_inference(self, backend: LinearBackend = DENSE, dtype: torch.dtype = torch.float32) -> InferenceCopy:
        """Copy of the weights in this precision; it takes the same steps."""
        return InferenceCopy(self, backend, dtype)


class LatentCaptioner(LSTMCaptioner):
    """An ``LSTMCaptioner`` conditioned on a discrete latent that is chosen before the first word."""

    has_latents = True

    @abstractmethod
    def init_state(self, batch: ControlBatch, latents: Int[Tensor, " examples"] | None = None) -> Any:
        """State before the first word, one row per example; without ``latents``, that of the most likely latent."""
