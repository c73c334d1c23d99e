"""Decoder of ``ShowControlTell``: ``FastCell`` with a copy of the weights, one step at a time.

Contributions of all words of the vocabulary are computed when it is built, those of an image once per caption.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from sct.decoding.interface import Step
from sct.errors import InputError
from sct.models.fast_cell import CurrentRegionSets, FastCell, RecurrentState, input_weights
from sct.models.inputs import ControlBatch
from sct.models.linear import DENSE, LinearBackend, dense_linear
from sct.models.modules import accumulate_dtype
from sct.models.show_control_tell import ShowControlTell


@dataclass(frozen=True, slots=True, eq=False)
class PrecomputedInputs:
    """Contributions to each step that stay the same throughout a caption."""

    batch: ControlBatch
    keys: Float[Tensor, "regions attention"]
    input_gates: Float[Tensor, "examples gates"]
    """Of the image to the attention LSTM and the sentinels."""
    language_gates: Float[Tensor, "examples language_gates"] | None
    """Of the image to the language LSTM, if it has one."""


@dataclass(frozen=True, slots=True, eq=False)
class FastState:
    """Recurrent state and pointer of each row of a ``FastDecoder``."""

    inputs: PrecomputedInputs
    example: Int[Tensor, " rows"]
    pointer: Int[Tensor, " rows"]
    recurrent: RecurrentState
    attention_weights: Float[Tensor, "rows members_and_sentinel"] | None = None
    """Of the step that led to this state: the members of its set, then the visual sentinel."""

    def select(self, rows: Int[Tensor, " chosen"]) -> "FastState":
        """State of the chosen rows, without attention weights."""
        return replace(
            self,
            example=self.example.index_select(0, rows),
            pointer=self.pointer.index_select(0, rows),
            recurrent=RecurrentState(*(values.index_select(0, rows) for values in self.recurrent)),
            attention_weights=None,
        )


class FastDecoder:
    """Decoder of ``ShowControlTell`` with a copy of its weights.

    ``backend`` holds for the matrices of every step; those used once per caption are dense. Everything but scores and
    log-probabilities, which are float32, is computed in ``dtype``.
    """

    has_latents = False
    has_attention = True

    @torch.no_grad()
    def __init__(
        self, model: ShowControlTell, backend: LinearBackend = DENSE, dtype: torch.dtype = torch.float32
    ) -> None:
        self.config, self.dtype = model.config, dtype
        inputs = input_weights(model)
        self._cell = FastCell(model, inputs, backend, dtype, gate_in_step=True)
        self._word_gates = functional.linear(model.word_embedding.weight, inputs.word, inputs.bias).to(dtype)
        self._image_gates = dense_linear(inputs.image.to(dtype))
        from_image = self._cell.language_from_image
        self._language_image_gates = None if from_image is None else dense_linear(from_image)
        self._region_key = dense_linear(model.attention.region_key.weight.to(dtype))
        projection = model.vocab_projection
        self._vocab_projection = backend.language_layer(
            projection.weight.to(dtype), projection.bias.to(dtype), bounded=True
        )

    @torch.inference_mode()
    def init_state(self, batch: ControlBatch, latents: Int[Tensor, " examples"] | None = None) -> FastState:
        """State before the first word, one row per example."""
        if latents is not None:
            raise InputError(f"got latents for variant {self.config.variant!r}, which has none: leave them out")
        batch = batch.with_end_slot(self.config).to(batch.image.device, self.dtype)
        num_examples, device = len(batch.image), batch.image.device
        inputs = PrecomputedInputs(
            batch,
            self._region_key(batch.regions),
            self._image_gates(batch.image),
            None if self._language_image_gates is None else self._language_image_gates(batch.image),
        )
        zeros = batch.image.new_zeros(num_examples, self.config.hidden_size)
        return FastState(
            inputs,
            torch.arange(num_examples, device=device),
            torch.zeros(num_examples, dtype=torch.long, device=device),
            RecurrentState(zeros, zeros, zeros, zeros),
        )

    @torch.inference_mode()
    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: FastState) -> Step:
        """Move the pointer by the previous shifts (Eq. 1) and predict the next words and shifts."""
        inputs, batch, example = state.inputs, state.inputs.batch, state.example
        pointer = torch.minimum(state.pointer + shifts, batch.num_slots[example] - 1)
        members, mask = batch.set_rows[example, pointer], batch.set_mask[example, pointer]
        output = self._cell.step(
            state.recurrent,
            inputs.input_gates.index_select(0, example) + self._word_gates.index_select(0, tokens),
            CurrentRegionSets(_gather_rows(batch.regions, members), _gather_rows(inputs.keys, members), mask),
            None if inputs.language_gates is None else inputs.language_gates.index_select(0, example),
        )
        logits = self._vocab_projection(output.state.language_hidden)
        weights = output.attention_weights
        if not self._cell.has_visual_sentinel:
            weights = functional.pad(weights, (0, 1))
        return Step(
            torch.log_softmax(logits, dim=1, dtype=accumulate_dtype(logits.dtype)),
            self._cell.shift_log_probs(output, mask),
            FastState(inputs, example, pointer, output.state, weights),
        )


def _gather_rows(
    table: Float[Tensor, "table width"], index: Int[Tensor, "rows members"]
) -> Float[Tensor, "rows members width"]:
    """Rows of a table by ``index_select``, which is faster than indexing with a matrix."""
    return table.index_select(0, index.flatten()).view(*index.shape, -1)
