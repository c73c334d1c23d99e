"""The same captioner, put together for speed: what does not change over time is computed once.

Per step ``ShowControlTell`` multiplies the image, the word and the states with a dozen matrices. Here the image's share
is computed once an example, a word's share once a vocabulary, and all products of one input are a single one. The
numbers are the same up to rounding; ``tests/model/test_fused.py`` holds the two against each other.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sct.decoding.interface import Step
from sct.models.inputs import ControlBatch
from sct.models.linear import DENSE, LinearBackend, Product, ProductFactory, dense
from sct.models.modules import MASKED, lstm_step
from sct.models.show_control_tell import ShowControlTell


@dataclass(frozen=True, slots=True, eq=False)
class PrecomputedInputs:
    """What stays the same while a caption is being said, of each example or region."""

    inputs: ControlBatch
    keys: Float[Tensor, "regions attention"]
    bottom: Float[Tensor, "examples bottom_gates"]
    """Share of the image in the gates of the bottom layer and in the sentinels."""
    top: Float[Tensor, "examples top_gates"] | None
    """Share of the image in the gates of the top layer, where it has one."""


@dataclass(frozen=True, slots=True, eq=False)
class FusedState:
    """Both layers' hidden states side by side, and both memories: what a search reorders is one row of each."""

    statics: PrecomputedInputs
    example: Int[Tensor, " rows"]
    pointer: Int[Tensor, " rows"]
    hidden: Float[Tensor, "rows both"]
    """Of the top layer, then of the bottom layer."""
    memory: Float[Tensor, "rows both"]
    """Likewise."""
    looked: Float[Tensor, "rows looked"] | None = None
    """What the step before this state attended to: the members of its set, then the visual sentinel."""

    def select(self, rows: Int[Tensor, " chosen"]) -> "FusedState":
        """The state of the chosen rows."""
        return replace(
            self,
            example=self.example.index_select(0, rows),
            pointer=self.pointer.index_select(0, rows),
            hidden=self.hidden.index_select(0, rows),
            memory=self.memory.index_select(0, rows),
            looked=None,  # of interest to whoever took the step, not to the next one
        )


class FusedCaptioner:
    """A captioner for inference alone: weights are laid out anew, and changes of the original do not reach it.

    ``products`` decides how the matrices of every step are stored and multiplied; those that are used once a caption
    stay as they are. ``dtype`` is the precision of everything but scores and log-probabilities, which stay in float32.
    """

    def __init__(
        self, captioner: ShowControlTell, products: LinearBackend = DENSE, dtype: torch.dtype = torch.float32
    ) -> None:
        config = captioner.config
        self.config = config
        self.dtype = dtype

        def stored(
            weight: Tensor,
            bias: Tensor | None = None,
            way: ProductFactory = products.bottom,
            *,
            bounded: bool = True,
        ) -> Product:
            # Most inputs are hidden states and sentinels, which lie from -1 to 1.
            return way(weight.detach().to(dtype), None if bias is None else vector(bias), bounded=bounded)

        def vector(weight: Tensor) -> Tensor:
            return weight.detach().to(dtype, copy=True)

        hidden, features = config.hidden_size, config.feature_size
        self._hidden, self._attention = hidden, config.attention_size
        self._chunk_reads_new = captioner.chunk_reads_new_state and captioner.chunk_sentinel is not None
        with torch.no_grad():
            sentinels = [part for part in (captioner.visual_sentinel, captioner.chunk_sentinel) if part is not None]
            from_input = torch.cat([captioner.bottom.weight_ih, *(part.from_input.weight for part in sentinels)])
            bias = captioner.bottom.bias_ih + captioner.bottom.bias_hh
            for part in sentinels:
                own = part.from_input.bias
                extra = bias.new_zeros(hidden) if own is None else own + part.from_hidden.bias
                bias = torch.cat([bias, extra])
            from_top, from_image, from_word = from_input.split([hidden, features, config.word_size], dim=1)
            recurrent = [captioner.bottom.weight_hh, *(part.from_hidden.weight for part in sentinels)]
            if self._chunk_reads_new:
                recurrent[-1] = torch.zeros_like(recurrent[-1])
            self._words = vector(captioner.words.weight @ from_word.T + bias)
            self._image_to_bottom = stored(from_image, way=dense)
            self._recurrent = stored(torch.cat([from_top, torch.cat(recurrent)], dim=1))

            top_from_hidden, top_from_context, *top_from_image = captioner.top.weight_ih.split(
                [hidden] + [features] * (2 if config.image_in_top_layer else 1), dim=1
            )
            self._image_to_top = stored(top_from_image[0], way=dense) if top_from_image else None
            readers = [captioner.compatibility.query.weight, top_from_hidden]
            if self._chunk_reads_new and captioner.chunk_sentinel is not None:
                readers.append(captioner.chunk_sentinel.from_hidden.weight)
            num_readers = [len(reader) for reader in readers]
            top_bias = torch.zeros(sum(num_readers), device=bias.device)
            top_bias[num_readers[0] : sum(num_readers[:2])] = captioner.top.bias_ih + captioner.top.bias_hh
            self._from_hidden = stored(torch.cat(readers), top_bias, products.top)
            self._from_context = stored(
                torch.cat([top_from_context, captioner.top.weight_hh], dim=1), way=products.top, bounded=False
            )

            self._region_key = stored(captioner.compatibility.region_key.weight, way=dense)
            self._region_vector = vector(captioner.compatibility.score.weight[0])
            self._visual: Product | None = None
            self._chunk_key: Product | None = None
            self._visual_vector = self._chunk_vector = self._region_vector
            if captioner.visual_score is not None and captioner.sentinel_value is not None:
                value = captioner.sentinel_value
                self._visual = stored(
                    torch.cat([captioner.visual_score.key.weight, value.weight]),
                    torch.cat([torch.zeros(config.attention_size, device=bias.device), value.bias]),
                )
                if captioner.visual_score.score is not None:
                    self._visual_vector = vector(captioner.visual_score.score.weight[0])
            if captioner.chunk_score is not None:
                self._chunk_key = stored(captioner.chunk_score.key.weight)
                if captioner.chunk_score.score is not None:
                    self._chunk_vector = vector(captioner.chunk_score.score.weight[0])
            self._output = stored(captioner.output.weight, captioner.output.bias, products.top)

    @torch.inference_mode()
    def begin(self, inputs: ControlBatch) -> FusedState:
        """The state before the first word, one row for each example."""
        inputs = inputs.with_end_slot(self.config).to(inputs.image.device, self.dtype)
        num_examples, device = len(inputs.image), inputs.image.device
        statics = PrecomputedInputs(
            inputs,
            self._region_key(inputs.regions),
            self._image_to_bottom(inputs.image),
            None if self._image_to_top is None else self._image_to_top(inputs.image),
        )
        zeros = inputs.image.new_zeros(num_examples, 2 * self._hidden)
        return FusedState(
            statics,
            torch.arange(num_examples, device=device),
            torch.zeros(num_examples, dtype=torch.long, device=device),
            zeros,
            zeros,
        )

    @torch.inference_mode()
    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: FusedState) -> Step:
        """Move the pointer by the last shifts (Eq. 1), and say what comes after the last words."""
        statics, example, size = state.statics, state.example, self._hidden
        inputs = statics.inputs
        pointer = torch.minimum(state.pointer + shifts, inputs.num_slots[example] - 1)
        members, mask = inputs.set_rows[example, pointer], inputs.set_mask[example, pointer]
        memory_2, memory_1 = state.memory.split(size, dim=1)

        recurrent = self._recurrent(state.hidden)
        given = statics.bottom.index_select(0, example) + self._words.index_select(0, tokens)
        hidden_1, memory_1 = lstm_step(recurrent[:, : 4 * size], given[:, : 4 * size], memory_1)
        sentinel_gates = recurrent[:, 4 * size :] + given[:, 4 * size :]
        read = self._from_hidden(hidden_1)
        query, top_gates = read[:, : self._attention], read[:, self._attention : self._attention + 4 * size]
        tanh_memory = torch.tanh(memory_1)

        scores = torch.tanh(_rows(statics.keys, members) + query[:, None]) @ self._region_vector
        masked = scores.float().masked_fill(~mask, MASKED)
        regions = _rows(inputs.regions, members)
        if self._visual is not None:
            visual = self._visual(torch.sigmoid(sentinel_gates[:, :size]) * tanh_memory)
            key, value = visual[:, : self._attention], visual[:, self._attention :]
            visual_score = (torch.tanh(key + query) @ self._visual_vector).float()
            weights = torch.softmax(torch.cat([masked, visual_score[:, None]], dim=1), dim=1).to(value.dtype)
            context = torch.baddbmm((weights[:, -1:] * value)[:, None], weights[:, None, :-1], regions).squeeze(1)
            sentinel_gates = sentinel_gates[:, size:]
        else:
            visual_score = None
            is_empty = ~mask.any(dim=1, keepdim=True)
            weights = torch.softmax(masked.masked_fill(is_empty, 0.0), dim=1).masked_fill(is_empty, 0.0)
            context = torch.bmm(weights.to(regions.dtype)[:, None], regions).squeeze(1)
            weights = torch.cat([weights, torch.zeros_like(weights[:, :1])], dim=1)
        if self._chunk_key is not None:
            if self._chunk_reads_new:
                sentinel_gates = sentinel_gates + read[:, self._attention + 4 * size :]
            chunk_key = self._chunk_key(torch.sigmoid(sentinel_gates) * tanh_memory)
            gate_score = (torch.tanh(chunk_key + query) @ self._chunk_vector).float()
        else:
            assert visual_score is not None
            gate_score = visual_score
        if self.config.mode == "reference":
            stay_and_shift = torch.stack([gate_score, scores.float().masked_fill(~mask, 0.0).sum(dim=1)], dim=1)
        else:
            all_regions = torch.logsumexp(masked, dim=1).masked_fill(~mask.any(dim=1), 0.0)
            stay_and_shift = torch.stack([all_regions, gate_score], dim=1)

        if statics.top is not None:
            top_gates = top_gates + statics.top.index_select(0, example)
        from_context = self._from_context(torch.cat([context, state.hidden[:, :size]], dim=1))
        hidden_2, memory_2 = lstm_step(top_gates, from_context, memory_2)
        logits = self._output(hidden_2)
        return Step(
            torch.log_softmax(logits, dim=1, dtype=torch.float32),
            torch.log_softmax(stay_and_shift, dim=1),
            FusedState(
                statics,
                example,
                pointer,
                torch.cat([hidden_2, hidden_1], dim=1),
                torch.cat([memory_2, memory_1], dim=1),
                weights,
            ),
        )


def _rows(
    table: Float[Tensor, "table width"], index: Int[Tensor, "rows members"]
) -> Float[Tensor, "rows members width"]:
    """Rows of a table, gathered as whole rows, which is faster than indexing with a matrix."""
    return table.index_select(0, index.flatten()).view(*index.shape, -1)
