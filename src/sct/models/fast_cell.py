"""Recurrent step of ``ShowControlTell`` with merged weights, for inference and training.

The readable model multiplies image, word and states by a dozen matrices per step. ``FastCell`` merges all matrices
that share an input; ``fast_decoder`` steps it, ``teacher_forcing`` unrolls it. Contributions of words and images are
computed before the recurrence. The results agree with the readable model up to rounding;
``tests/models/test_fast_cell.py`` compares them.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from sct.models.linear import Linear, LinearBackend
from sct.models.modules import MASKED, accumulate_dtype, lstm_cell, masked_softmax
from sct.models.show_control_tell import ShowControlTell


class RecurrentState(NamedTuple):
    """Hidden and cell states of both LSTMs."""

    attention_hidden: Float[Tensor, "rows hidden"]
    attention_cell: Float[Tensor, "rows hidden"]
    language_hidden: Float[Tensor, "rows hidden"]
    language_cell: Float[Tensor, "rows hidden"]


class CurrentRegionSets(NamedTuple):
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
        region_sets: CurrentRegionSets,
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
