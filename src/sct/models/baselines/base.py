"""Base classes of the baselines: captioners without a gate, built from LSTM layers."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
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
from sct.models.linear import DENSE, DeferredGradLinear, LinearBackend, padded_linear
from sct.models.modules import accumulate_dtype, compute_dtype, lstm_cell
from sct.models.registry import build_model
from sct.storage.skip_init import SkipInit


class LSTMState(NamedTuple):
    """Hidden and cell state of an LSTM layer."""

    hidden: Float[Tensor, "rows hidden"]
    cell: Float[Tensor, "rows hidden"]

    def select(self, rows: Int[Tensor, " chosen"]) -> "LSTMState":
        """State of the chosen rows."""
        return LSTMState(self.hidden.index_select(0, rows), self.cell.index_select(0, rows))

    def repeat(self, times: int) -> "LSTMState":
        """State with each row repeated ``times`` times."""
        return LSTMState(repeat_rows(self.hidden, times), repeat_rows(self.cell, times))


def zero_state(num_rows: int, size: int, like: Tensor) -> LSTMState:
    """State before the first step, of the device and precision of ``like``."""
    zeros = like.new_zeros(num_rows, size)
    return LSTMState(zeros, zeros)


class LSTMLayer(nn.LSTMCell):
    """``nn.LSTMCell`` on ``LSTMState``, in the precision of its matrix products."""

    def step(self, inputs: Float[Tensor, "rows inputs"], state: LSTMState) -> LSTMState:
        """Advance by one step."""
        gates = functional.linear(inputs, self.weight_ih, self.bias_ih)
        more_gates = functional.linear(state.hidden, self.weight_hh, self.bias_hh)
        return LSTMState(*lstm_cell(gates, more_gates, state.cell))


class DeferredLSTM:
    """An ``LSTMLayer`` for all steps of one teacher-forced pass, with deferred weight gradients.

    Inputs that are known before the first step (``static``) are projected for all steps at once; the ``recurrent``
    ones go through one product per step.
    """

    def __init__(self, layer: LSTMLayer, *, recurrent: int, static: Sequence[int], dtype: torch.dtype) -> None:
        """Split the layer's inputs: the first ``recurrent`` ones, then static inputs of these sizes."""
        # Split once: the gradient of a slice taken alone would be a whole matrix of zeros.
        from_recurrent, *self._from_static = layer.weight_ih.to(dtype).split([recurrent, *static], dim=1)
        weight = torch.cat([from_recurrent, layer.weight_hh.to(dtype)], dim=1)
        self._linear = DeferredGradLinear(weight, (layer.bias_ih + layer.bias_hh).to(dtype))
        self._zeros: Tensor | None = None

    def project_static(self, *inputs: Float[Tensor, "..."]) -> Float[Tensor, "*steps rows gates"]:
        """Gate contribution of the static inputs; one that is the same at all steps has no time dimension."""
        return reduce(torch.add, map(functional.linear, inputs, self._from_static))

    def step(
        self,
        recurrent: Sequence[Float[Tensor, "rows _"]],
        static_gates: Float[Tensor, "rows gates"] | None,
        state: LSTMState,
    ) -> LSTMState:
        """Advance by one step; ``static_gates`` is that step of ``project_static``, None without static inputs."""
        rows = torch.cat([*recurrent, state.hidden], dim=1) if recurrent else state.hidden
        gates = self._linear(rows)
        if static_gates is None:
            self._zeros = static_gates = torch.zeros_like(gates) if self._zeros is None else self._zeros
        return LSTMState(*lstm_cell(gates, static_gates, state.cell))


def repeat_rows(table: Shaped[Tensor, "rows ..."], times: int) -> Shaped[Tensor, "more_rows ..."]:
    """Repeat each row ``times`` times.

    >>> repeat_rows(torch.tensor([3, 4]), 2).tolist()
    [3, 3, 4, 4]
    """
    return table if times == 1 else table.repeat_interleave(times, dim=0)


class VocabProjection(nn.Linear):
    """Logits of all words, by the padded kernel."""

    def forward(self, rows: Float[Tensor, "rows hidden"]) -> Float[Tensor, "rows words"]:
        """Vocabulary logits."""
        return padded_linear(rows, self.weight, self.bias)


class StepHidden(NamedTuple):
    """Hidden vector that a step predicts the word from, and the new state."""

    hidden: Float[Tensor, "rows hidden"]
    state: Any


class LSTMCaptioner(CaptionModel):
    """A captioner without a gate, which predicts each word from one hidden vector."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        self.config = config
        self.word_embedding = nn.Embedding(config.vocabulary_size, config.word_size)
        self.vocab_projection = VocabProjection(config.hidden_size, config.vocabulary_size)

    @abstractmethod
    def forward_step(self, tokens: Int[Tensor, " rows"], state: Any) -> StepHidden:
        """Hidden vector and state after the previous words."""

    @abstractmethod
    def forward_sequence(self, words: Int[Tensor, "rows time"], state: Any) -> Float[Tensor, "time_and_rows hidden"]:
        """Hidden vectors of ``forward_step`` for known words: all rows at the first step, then at the second, ...

        ``state`` is the initial one, with one row per example. Captions of one example are adjacent rows, equally many
        for each; weight gradients are deferred.
        """

    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: Any) -> Step:  # noqa: ARG002
        """Log-probabilities of the next words; shifts have no effect."""
        output = self.forward_step(tokens, state)
        logits = self.vocab_projection(output.hidden)
        return Step(torch.log_softmax(logits, dim=1, dtype=accumulate_dtype(logits.dtype)), None, output.state)

    def _teacher_force(self, inputs: TeacherForcingInputs) -> TeacherForcedOutput:
        state = self.init_state(self.cast(inputs.batch))
        return TeacherForcedOutput(-self.token_nll(inputs.words, state, inputs.label_smoothing), None)

    def cast(self, batch: ControlBatch) -> ControlBatch:
        """Batch on the model's device in the precision of its matrix products."""
        weight = self.vocab_projection.weight
        return batch.to(weight.device, compute_dtype(weight))

    def token_nll(
        self, words: Int[Tensor, "rows time_and_one"], state: Any, label_smoothing: float = 0.0
    ) -> Float[Tensor, "rows time"]:
        """Cross-entropy of each word after the first, from the initial state."""
        return self.token_nll_from_hidden(self.forward_sequence(words[:, :-1], state), words, label_smoothing)

    def token_nll_from_hidden(
        self,
        hidden: Float[Tensor, "time_and_rows hidden"],
        words: Int[Tensor, "rows time_and_one"],
        label_smoothing: float = 0.0,
    ) -> Float[Tensor, "rows time"]:
        """``token_nll`` from the vectors of ``forward_sequence``."""
        logits = self.vocab_projection(hidden)
        nll = functional.cross_entropy(
            logits.to(accumulate_dtype(logits.dtype)),
            words[:, 1:].T.flatten(),
            reduction="none",
            label_smoothing=label_smoothing,
        )
        return nll.view(-1, len(words)).T

    def for_inference(self, backend: LinearBackend = DENSE, dtype: torch.dtype = torch.float32) -> "InferenceCopy":
        """Copy of the current weights that takes the same steps."""
        return InferenceCopy(self, backend, dtype)


class LatentCaptioner(LSTMCaptioner):
    """An ``LSTMCaptioner`` conditioned on a discrete latent that is chosen before the first word."""

    has_latents = True

    @abstractmethod
    def init_state(self, batch: ControlBatch, latents: Int[Tensor, " examples"] | None = None) -> Any:
        """State before the first word, one row per example; without ``latents``, that of the most likely latent."""


class InferenceCopy:
    """Decoder that steps a gradient-free copy of a baseline."""

    has_attention = False

    def __init__(self, model: CaptionModel, backend: LinearBackend = DENSE, dtype: torch.dtype = torch.float32) -> None:
        if backend is not DENSE:
            raise InputError(
                f"got int8 weights for variant {model.config.variant!r}, expected float32 or float16: baselines have "
                "no int8 implementation"
            )
        self.config, self.dtype, self.has_latents = model.config, dtype, model.has_latents
        with torch.device("meta"), SkipInit():
            self._model = build_model(model.config)
        # Copied even if the precision stays, so that training the original does not change this copy.
        weights = {name: weight.detach().to(dtype, copy=True) for name, weight in model.state_dict().items()}
        self._model.load_state_dict(weights, assign=True)
        self._model.eval()
        self._init_state: Callable[..., Any] = self._model.init_state

    @torch.inference_mode()
    def init_state(self, batch: ControlBatch, latents: Int[Tensor, " examples"] | None = None) -> Any:
        """State before the first word, one row per example."""
        batch = batch.to(batch.image.device, self.dtype)
        if latents is None:
            return self._init_state(batch)
        if not self.has_latents:
            raise InputError(f"got latents for variant {self.config.variant!r}, which has none: leave them out")
        return self._init_state(batch, latents)

    @torch.inference_mode()
    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: Any) -> Step:
        """Step of the copied model."""
        return self._model.step(tokens, shifts, state)
