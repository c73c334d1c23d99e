"""Fast implementation of ``ShowControlTell``, for inference and training.

The readable model multiplies image, word and states by a dozen matrices per step. ``FastCell`` merges all matrices
that share an input. Contributions of words and images are computed before the recurrence: per vocabulary and example
for inference, for all steps at once for training, which also evaluates the gate and the vocabulary after the last
step. The results agree with the readable model up to rounding; ``tests/models/test_fast_cell.py`` compares them.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from sct.decoding.interface import Step
from sct.errors import InputError
from sct.models.inputs import ControlBatch
from sct.models.interface import TeacherForcedOutput, TeacherForcingInputs
from sct.models.linear import DEFERRED_GRAD, DENSE, Linear, LinearBackend, dense_linear, padded_linear
from sct.models.modules import MASKED, accumulate_dtype, compute_dtype, lstm_cell, masked_softmax
from sct.models.show_control_tell import ShowControlTell, TeacherForcedLogProbs


class RecurrentState(NamedTuple):
    """Hidden and cell states of both LSTMs."""

    attention_hidden: Float[Tensor, "rows hidden"]
    attention_cell: Float[Tensor, "rows hidden"]
    language_hidden: Float[Tensor, "rows hidden"]
    language_cell: Float[Tensor, "rows hidden"]


class RegionSets(NamedTuple):
    """Region set under the pointer of each row."""

    regions: Float[Tensor, "rows members features"]
    keys: Float[Tensor, "rows members attention"]
    mask: Bool[Tensor, "rows members"]


class CellOutput(NamedTuple):
    """What one step leaves for the gate, the vocabulary projection and the next step."""

    state: RecurrentState
    query: Float[Tensor, "rows attention"]
    region_scores: Float[Tensor, "rows members"]
    visual_score: Float[Tensor, " rows"] | None
    chunk_gates: Float[Tensor, "rows hidden"] | None
    """Pre-activation of the chunk sentinel's sigmoid; None if it is computed after the recurrence."""
    attention_weights: Float[Tensor, "rows members_and_sentinel"]
    """Over the members of the set, then the visual sentinel if there is one."""


class InputWeights(NamedTuple):
    """Weights from the attention LSTM's input to its gates, the visual and the chunk sentinel, one below the other."""

    language_hidden: Float[Tensor, "gates hidden"]
    image: Float[Tensor, "gates features"]
    word: Float[Tensor, "gates word"]
    bias: Float[Tensor, " gates"]


def input_weights(model: ShowControlTell) -> InputWeights:
    """Merge the input weights of the attention LSTM and the sentinels."""
    config = model.config
    sentinels = [sentinel for sentinel in (model.visual_sentinel, model.chunk_sentinel) if sentinel is not None]
    weights = [model.attention_lstm.weight_ih, *(sentinel.from_input.weight for sentinel in sentinels)]
    # Split before merging: the gradient of a slice of the merged matrix would be a whole matrix of zeros.
    columns = (weight.split([config.hidden_size, config.feature_size, config.word_size], dim=1) for weight in weights)
    language_hidden, image, word = (torch.cat(parts) for parts in zip(*columns, strict=True))
    biases = [model.attention_lstm.bias_ih + model.attention_lstm.bias_hh]
    for sentinel in sentinels:
        bias = sentinel.from_input.bias
        biases.append(
            torch.zeros_like(biases[0][: config.hidden_size]) if bias is None else bias + sentinel.from_hidden.bias
        )
    return InputWeights(language_hidden, image, word, torch.cat(biases))


class FastCell:
    """Recurrent step with merged weights; ``backend`` decides how they are stored and multiplied.

    With ``gate_in_step`` the chunk sentinel is part of every step. Otherwise, for training, ``chunk_gates`` computes
    it for all steps after the last one.
    """

    def __init__(
        self,
        model: ShowControlTell,
        inputs: InputWeights,
        backend: LinearBackend,
        dtype: torch.dtype,
        *,
        gate_in_step: bool,
    ) -> None:
        config = model.config
        self.hidden_size, features, attention_size = config.hidden_size, config.feature_size, config.attention_size
        self.gate, self.has_visual_sentinel = model.gate, model.visual_sentinel is not None
        self._chunk_reads_new_state = model.chunk_reads_new_state
        chunk_from_hidden = None if model.chunk_sentinel is None else model.chunk_sentinel.from_hidden.weight
        chunk_in_step = chunk_from_hidden if gate_in_step else None
        size = self.hidden_size

        # [language hidden, attention hidden] -> attention LSTM, visual sentinel, chunk sentinel
        from_hidden = [model.attention_lstm.weight_hh]
        if model.visual_sentinel is not None:
            from_hidden.append(model.visual_sentinel.from_hidden.weight)
        if chunk_in_step is not None:
            from_hidden.append(torch.zeros_like(chunk_in_step) if self._chunk_reads_new_state else chunk_in_step)
        recurrent = torch.cat(from_hidden)
        num_gates = len(recurrent)
        self._recurrent = backend.attention_layer(
            torch.cat([inputs.language_hidden[:num_gates], recurrent], dim=1).to(dtype), bounded=True
        )
        self._chunk_recurrent: Linear | None = None
        if chunk_from_hidden is not None and not gate_in_step:
            self._chunk_recurrent = backend.attention_layer(
                torch.cat([inputs.language_hidden[num_gates:], chunk_from_hidden], dim=1).to(dtype), bounded=True
            )

        # attention hidden -> attention query, language LSTM, chunk sentinel if it reads the new state
        language_from_hidden, language_from_context, *language_from_image = model.language_lstm.weight_ih.split(
            [size] + [features] * (2 if config.image_in_language_lstm else 1), dim=1
        )
        from_new_hidden = [model.attention.query.weight, language_from_hidden]
        if chunk_in_step is not None and self._chunk_reads_new_state:
            from_new_hidden.append(chunk_in_step)
        self._from_new_hidden = backend.language_layer(torch.cat(from_new_hidden).to(dtype), bounded=True)
        self._new_hidden_sizes = [len(weight) for weight in from_new_hidden]

        # [context, language hidden] -> language LSTM
        self._from_context = backend.language_layer(
            torch.cat([language_from_context, model.language_lstm.weight_hh], dim=1).to(dtype),
            (model.language_lstm.bias_ih + model.language_lstm.bias_hh).to(dtype),
        )
        self.language_from_image = language_from_image[0].to(dtype) if language_from_image else None

        self._score_vector = model.attention.score.weight[0].to(dtype).clone()
        # visual sentinel -> its attention key and value
        self._visual: Linear | None = None
        self._visual_vector = self._chunk_vector = self._score_vector
        self._visual_sizes = [attention_size, features]
        if model.visual_score is not None and model.sentinel_projection is not None:
            projection = model.sentinel_projection
            self._visual = backend.attention_layer(
                torch.cat([model.visual_score.key.weight, projection.weight]).to(dtype),
                torch.cat([torch.zeros_like(projection.bias[:1]).expand(attention_size), projection.bias]).to(dtype),
                bounded=True,
            )
            if model.visual_score.score is not None:
                self._visual_vector = model.visual_score.score.weight[0].to(dtype).clone()
        # chunk sentinel -> its key
        self._chunk_key: Linear | None = None
        if model.chunk_score is not None:
            self._chunk_key = backend.attention_layer(model.chunk_score.key.weight.to(dtype), bounded=True)
            if model.chunk_score.score is not None:
                self._chunk_vector = model.chunk_score.score.weight[0].to(dtype).clone()

    def step(
        self,
        state: RecurrentState,
        input_gates: Float[Tensor, "rows gates"],
        region_sets: RegionSets,
        language_gates: Float[Tensor, "rows language_gates"] | None,
    ) -> CellOutput:
        """Advance both LSTMs by one step, Eq. 2-5 and 7-10.

        ``input_gates`` is the contribution of image and word to the attention LSTM and the sentinels,
        ``language_gates`` that of the image to the language LSTM, if it has one.
        """
        size, mask = self.hidden_size, region_sets.mask
        gates = self._recurrent(torch.cat([state.language_hidden, state.attention_hidden], dim=1))
        hidden, cell = lstm_cell(gates[:, : 4 * size], input_gates[:, : 4 * size], state.attention_cell)
        query, from_hidden, *chunk_from_new = self._from_new_hidden(hidden).split(self._new_hidden_sizes, dim=1)
        scores = _accumulate(torch.tanh(region_sets.keys + query[:, None]) @ self._score_vector)

        visual_score = chunk_gates = None
        if gates.shape[1] > 4 * size:
            sentinel_gates = visual_gates = gates[:, 4 * size :] + input_gates[:, 4 * size :]
            if self._visual is None:
                chunk_gates = sentinel_gates
            elif sentinel_gates.shape[1] > size:
                visual_gates, chunk_gates = sentinel_gates.split(size, dim=1)
            if chunk_gates is not None and chunk_from_new:
                chunk_gates = chunk_gates + chunk_from_new[0]
        if self._visual is not None:
            visual = self._visual(torch.sigmoid(visual_gates) * torch.tanh(cell))
            key, value = visual.split(self._visual_sizes, dim=1)
            visual_score = _accumulate(torch.tanh(key + query) @ self._visual_vector)
            masked = scores.masked_fill(~mask, MASKED)
            weights = torch.softmax(torch.cat([masked, visual_score[:, None]], dim=1), dim=1).to(query.dtype)
            sentinel_context = (weights[:, -1:] * value)[:, None]
            context = torch.baddbmm(sentinel_context, weights[:, None, :-1], region_sets.regions).squeeze(1)
        else:
            weights = masked_softmax(scores, mask).to(query.dtype)
            context = torch.bmm(weights[:, None], region_sets.regions).squeeze(1)

        if language_gates is not None:
            from_hidden = from_hidden + language_gates
        from_context = self._from_context(torch.cat([context, state.language_hidden], dim=1))
        language_hidden, language_cell = lstm_cell(from_hidden, from_context, state.language_cell)
        new_state = RecurrentState(hidden, cell, language_hidden, language_cell)
        return CellOutput(new_state, query, scores, visual_score, chunk_gates, weights)

    def chunk_gates(
        self,
        states: RecurrentState,
        input_gates: Float[Tensor, "time_and_rows gates"],
        num_rows: int,
    ) -> Float[Tensor, "time_and_rows hidden"] | None:
        """``CellOutput.chunk_gates`` of all steps from the stacked states after each, if there is a chunk sentinel."""
        if self._chunk_recurrent is None:
            return None
        hidden = states.attention_hidden
        if not self._chunk_reads_new_state:
            hidden = _previous_steps(hidden, num_rows)
        recurrent = torch.cat([_previous_steps(states.language_hidden, num_rows), hidden], dim=1)
        return input_gates + self._chunk_recurrent(recurrent)

    def shift_log_probs(self, output: CellOutput, mask: Bool[Tensor, "rows members"]) -> Float[Tensor, "rows 2"]:
        """Log-probabilities of STAY and SHIFT: the model's gate on the chunk sentinel, or else the visual one."""
        score = output.visual_score
        if self._chunk_key is not None and output.chunk_gates is not None:
            chunk = torch.sigmoid(output.chunk_gates) * torch.tanh(output.state.attention_cell)
            score = _accumulate(torch.tanh(self._chunk_key(chunk) + output.query) @ self._chunk_vector)
        assert score is not None
        return self.gate(score, output.region_scores, mask)


def _accumulate(values: Tensor) -> Tensor:
    return values.to(accumulate_dtype(values.dtype))


def _previous_steps(
    stacked: Float[Tensor, "time_and_rows hidden"], num_rows: int
) -> Float[Tensor, "time_and_rows hidden"]:
    """Stacked states before each step, from those after it; zeros before the first."""
    return functional.pad(stacked, (0, 0, num_rows, 0))[:-num_rows]


# Inference ----------------------------------------------------------------------------------------------------------


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
            RegionSets(_gather_rows(batch.regions, members), _gather_rows(inputs.keys, members), mask),
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


# Training -----------------------------------------------------------------------------------------------------------


class _Unrolled(NamedTuple):
    """Predictions along given captions."""

    logits: Float[Tensor, "time_and_captions vocabulary"]
    """Of words: all captions at the first step, then at the second, ..."""
    shift_log_probs: Float[Tensor, "captions time 2"]


def teacher_force(model: ShowControlTell, inputs: TeacherForcingInputs) -> TeacherForcedOutput:
    """Implement ``CaptionModel.teacher_force``; all but scores and log-probabilities are in autocast's dtype."""
    dtype = compute_dtype(model.vocab_projection.weight)
    with torch.autocast(inputs.words.device.type, enabled=False):
        unrolled = _unroll(model, inputs.batch, inputs.words, inputs.slots, dtype)
        num_captions, num_steps = inputs.slots.shape

        def log_probs(targets: Tensor, label_smoothing: float = 0.0) -> Float[Tensor, "captions time"]:
            nll = functional.cross_entropy(unrolled.logits, targets, reduction="none", label_smoothing=label_smoothing)
            return -nll.view(num_steps, num_captions).T

        words, soft = inputs.words[:, 1:].T.flatten(), inputs.soft_targets
        return TeacherForcedOutput(
            log_probs(words, inputs.label_smoothing),
            unrolled.shift_log_probs,
            distillation_log_probs=None if soft is None else log_probs(soft.transpose(0, 1).flatten(0, 1)),
        )


def teacher_forced_log_probs(
    model: ShowControlTell,
    batch: ControlBatch,
    words: Int[Tensor, "captions time_and_one"],
    slots: Int[Tensor, "captions time"],
) -> TeacherForcedLogProbs:
    """Fast ``ShowControlTell.teacher_forced_log_probs``; the last of ``words`` is not read."""
    dtype = compute_dtype(model.vocab_projection.weight)
    with torch.autocast(words.device.type, enabled=False):
        unrolled = _unroll(model, batch, words, slots, dtype)
        log_probs = torch.log_softmax(unrolled.logits, dim=1).view(slots.shape[1], slots.shape[0], -1)
    return TeacherForcedLogProbs(log_probs.transpose(0, 1), unrolled.shift_log_probs)


def _unroll(model: ShowControlTell, batch: ControlBatch, words: Tensor, slots: Tensor, dtype: torch.dtype) -> _Unrolled:
    batch = batch.with_end_slot(model.config)
    num_captions, num_steps = slots.shape
    captions_per_example = num_captions // len(batch.image)
    weights, image = input_weights(model), batch.image.to(dtype)
    cell = FastCell(model, weights, DEFERRED_GRAD, dtype, gate_in_step=False)

    embedded = functional.embedding(words[:, :-1].T, model.word_embedding.weight.to(dtype))  # time first
    image_gates = functional.linear(image, weights.image.to(dtype), weights.bias.to(dtype))
    input_gates = functional.linear(embedded, weights.word.to(dtype)) + image_gates.repeat_interleave(
        captions_per_example, dim=0
    )
    in_step = (5 if cell.has_visual_sentinel else 4) * cell.hidden_size
    language_gates = None
    if cell.language_from_image is not None:
        from_image = functional.linear(image, cell.language_from_image)
        language_gates = from_image.repeat_interleave(captions_per_example, dim=0)

    zeros = image.new_zeros(num_captions, cell.hidden_size)
    state, outputs = RecurrentState(zeros, zeros, zeros, zeros), []
    region_sets = _region_sets(model, batch, slots, dtype)
    # Unbound once: the gradient of indexing one step is a tensor of zeros for all steps, each time.
    steps = zip(input_gates[..., :in_step].unbind(0), *(table.unbind(1) for table in region_sets), strict=True)
    for step_gates, *step_sets in steps:
        output = cell.step(state, step_gates, RegionSets(*step_sets), language_gates)
        state = output.state
        outputs.append(output)

    stacked = _stack(outputs)
    chunk_gates = cell.chunk_gates(stacked.state, input_gates[..., in_step:].flatten(0, 1), num_captions)
    mask = region_sets.mask.transpose(0, 1).flatten(0, 1)
    shifts = cell.shift_log_probs(stacked._replace(chunk_gates=chunk_gates), mask)
    projection = model.vocab_projection
    logits = padded_linear(stacked.state.language_hidden, projection.weight.to(dtype), projection.bias.to(dtype))
    return _Unrolled(_accumulate(logits), shifts.view(num_steps, num_captions, 2).transpose(0, 1))


def _stack(outputs: list[CellOutput]) -> CellOutput:
    """Outputs of all steps as rows, all captions at the first step first."""
    states = [output.state for output in outputs]
    visual_scores = [output.visual_score for output in outputs if output.visual_score is not None]
    return CellOutput(
        RecurrentState(
            torch.cat([state.attention_hidden for state in states]),
            torch.cat([state.attention_cell for state in states]),
            torch.cat([state.language_hidden for state in states]),
            states[-1].language_cell,  # not needed of all
        ),
        torch.cat([output.query for output in outputs]),
        torch.cat([output.region_scores for output in outputs]),
        torch.cat(visual_scores) if visual_scores else None,
        None,
        outputs[-1].attention_weights,  # not needed of all
    )


class _SlotSets(NamedTuple):
    """Region set under the pointer at each step, in the order of ``RegionSets``."""

    regions: Float[Tensor, "captions time members features"]
    keys: Float[Tensor, "captions time members attention"]
    mask: Bool[Tensor, "captions time members"]


def _region_sets(model: ShowControlTell, batch: ControlBatch, slots: Tensor, dtype: torch.dtype) -> _SlotSets:
    (num_examples, num_slots, num_members), (num_captions, num_steps) = batch.set_rows.shape, slots.shape
    regions = batch.regions.to(dtype)
    in_sets = regions.index_select(0, batch.set_rows.flatten())
    keys = functional.linear(in_sets, model.attention.region_key.weight.to(dtype))
    # Selected by a product with one-hot slots: exact, and its gradient needs no scattered additions.
    one_hot = functional.one_hot(slots, num_slots).to(dtype).view(num_examples, -1, num_slots)
    step_keys = one_hot @ keys.view(num_examples, num_slots, -1)
    example = torch.arange(num_examples, device=slots.device).repeat_interleave(num_captions // num_examples)[:, None]
    rows = batch.set_rows[example, slots]
    return _SlotSets(
        regions.index_select(0, rows.flatten()).view(*rows.shape, -1),
        step_keys.view(num_captions, num_steps, num_members, -1),
        batch.set_mask[example, slots],
    )
