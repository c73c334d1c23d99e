"""Up-Down (Anderson et al. 2018): an attention LSTM over region features and a language LSTM.

Show, Control and Tell is this model with sentinels and a gate. Here attention covers all regions of the image or, in
the controllable variant, all regions of the control, whose order it cannot see.
"""

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.models.baselines.base import (
    DeferredLSTM,
    LSTMCaptioner,
    LSTMLayer,
    LSTMState,
    StepHidden,
    repeat_rows,
    zero_state,
)
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.linear import DeferredGradLinear
from sct.models.modules import MASKED, AdditiveAttention, accumulate_dtype, masked_softmax


@dataclass(frozen=True, slots=True, eq=False)
class RegionContext:
    """Image descriptor and attended regions of each example, or of each row."""

    image: Float[Tensor, "rows features"]
    regions: Float[Tensor, "rows pool features"]
    keys: Float[Tensor, "rows pool attention"]
    """Attention key of each region."""
    mask: Bool[Tensor, "rows pool"]

    def select(self, chosen: Int[Tensor, " chosen"]) -> "RegionContext":
        """Context of the chosen rows."""
        return replace(
            self, **{field.name: getattr(self, field.name).index_select(0, chosen) for field in fields(self)}
        )


@dataclass(frozen=True, slots=True, eq=False)
class UpDownState:
    """States of both LSTM layers; the regions are shared between states."""

    examples: RegionContext
    rows: RegionContext | None
    """Context gathered for each row, kept while rows stay the same; None until the next step gathers it."""
    example: Int[Tensor, " rows"]
    attention_lstm: LSTMState
    language_lstm: LSTMState

    def select(self, rows: Int[Tensor, " chosen"]) -> "UpDownState":
        """State of the chosen rows."""
        return replace(
            self,
            rows=None,
            example=self.example.index_select(0, rows),
            attention_lstm=self.attention_lstm.select(rows),
            language_lstm=self.language_lstm.select(rows),
        )

    def row_context(self) -> RegionContext:
        """Context of each row."""
        return self.examples.select(self.example) if self.rows is None else self.rows


class AttendedStep(NamedTuple):
    """Result of the attention LSTM and the attention in one step."""

    language_input: Float[Tensor, "rows inputs"]
    attention_lstm: LSTMState


class Unrolled(NamedTuple):
    """Intermediate results of each step."""

    attention_hidden: list[Float[Tensor, "rows hidden"]]
    contexts: list[Float[Tensor, "rows features"]]
    language_lstm: list[LSTMState]


class UpDown(LSTMCaptioner):
    """Captioner with bottom-up and top-down attention."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__(config)
        hidden, features = config.hidden_size, config.feature_size
        self.attention_lstm = LSTMLayer(hidden + features + config.word_size, hidden)
        self.language_lstm = LSTMLayer(hidden + features * (2 if config.image_in_language_lstm else 1), hidden)
        self.attention = AdditiveAttention(features, hidden, config.attention_size)
        self.reset_parameters()

    def init_state(self, batch: ControlBatch) -> UpDownState:
        """State before the first word; a region of several sets is attended several times."""
        num_examples = len(batch.image)
        context = self.encode_regions(batch)
        zeros = zero_state(num_examples, self.config.hidden_size, batch.image)
        return UpDownState(context, context, torch.arange(num_examples, device=batch.image.device), zeros, zeros)

    def encode_regions(self, batch: ControlBatch) -> RegionContext:
        """Regions of each example with their attention keys."""
        pool = batch.set_rows.flatten(1)
        regions = batch.regions.index_select(0, pool.flatten()).view(*pool.shape, -1)
        return RegionContext(batch.image, regions, self.attention.region_key(regions), batch.set_mask.flatten(1))

    def embed(self, tokens: Int[Tensor, " rows"], state: UpDownState) -> Float[Tensor, "rows word"]:  # noqa: ARG002
        """Input embedding of the previous words."""
        embedded: Tensor = self.word_embedding(tokens)
        return embedded

    def embed_sequence(
        self,
        words: Int[Tensor, "rows time"],
        state: UpDownState,  # noqa: ARG002
    ) -> Float[Tensor, "time rows word"]:
        """Input embeddings of all steps."""
        embedded: Tensor = self.word_embedding(words.T)
        return embedded

    def attend(self, tokens: Int[Tensor, " rows"], state: UpDownState, context: RegionContext) -> AttendedStep:
        """Advance the attention LSTM and attend to the regions."""
        image = context.image
        word = self.embed(tokens, state).to(image.dtype)
        lstm_input = torch.cat([state.language_lstm.hidden, image, word], dim=1)
        attention_lstm = self.attention_lstm.step(lstm_input, state.attention_lstm)
        scores = self.attention(context.keys, self.attention.query(attention_lstm.hidden))
        weights = masked_softmax(scores.to(accumulate_dtype(scores.dtype)), context.mask).to(image.dtype)
        attended = torch.bmm(weights[:, None], context.regions).squeeze(1)
        language_input = [attention_lstm.hidden, attended] + [image] * self.config.image_in_language_lstm
        return AttendedStep(torch.cat(language_input, dim=1), attention_lstm)

    def forward_step(self, tokens: Int[Tensor, " rows"], state: UpDownState) -> StepHidden:
        """Hidden vector and state after the previous words."""
        context = state.row_context()
        attended = self.attend(tokens, state, context)
        language_lstm = self.language_lstm.step(attended.language_input, state.language_lstm)
        new_state = replace(state, rows=context, attention_lstm=attended.attention_lstm, language_lstm=language_lstm)
        return StepHidden(language_lstm.hidden, new_state)

    def forward_sequence(
        self, words: Int[Tensor, "rows time"], state: UpDownState
    ) -> Float[Tensor, "time_and_rows hidden"]:
        """Hidden vectors of all steps."""
        return torch.cat([lstm.hidden for lstm in self.unroll(words, state).language_lstm])

    def unroll(self, words: Int[Tensor, "rows time"], state: UpDownState) -> Unrolled:
        """Take all steps of known words; words and image are projected beforehand."""
        context, dtype = state.examples, state.examples.image.dtype
        size, features, in_language = (
            self.config.hidden_size,
            self.config.feature_size,
            self.config.image_in_language_lstm,
        )
        num_examples, times = len(context.image), len(words) // len(context.image)
        attention_lstm = DeferredLSTM(
            self.attention_lstm, recurrent=size, static=[features, self.config.word_size], dtype=dtype
        )
        language_lstm = DeferredLSTM(
            self.language_lstm, recurrent=size + features, static=[features] * in_language, dtype=dtype
        )
        image = repeat_rows(context.image, times)
        language_gates = language_lstm.project_static(image) if in_language else None
        query = DeferredGradLinear(self.attention.query.weight.to(dtype))
        score_vector = self.attention.score.weight[0].to(dtype)
        # Captions of one example are adjacent, so its regions need not be copied for each.
        keys, mask = context.keys[:, None], context.mask[:, None]
        is_empty = ~mask.any(dim=2, keepdim=True)
        bias = torch.zeros_like(mask, dtype=accumulate_dtype(dtype)).masked_fill_(~mask & ~is_empty, MASKED)
        regions = context.regions.masked_fill(is_empty, 0.0)  # attending to nothing gives zeros

        attention_state, language_state = state.attention_lstm.repeat(times), state.language_lstm.repeat(times)
        unrolled = Unrolled([], [], [])
        for gates in attention_lstm.project_static(image, self.embed_sequence(words, state).to(dtype)).unbind(0):
            attention_state = attention_lstm.step([language_state.hidden], gates, attention_state)
            queries = query(attention_state.hidden).view(num_examples, times, 1, -1)
            scores = torch.tanh(keys + queries) @ score_vector
            weights = torch.softmax(scores + bias, dim=2).to(dtype)
            attended = torch.bmm(weights, regions).flatten(0, 1)
            language_state = language_lstm.step([attention_state.hidden, attended], language_gates, language_state)
            unrolled.attention_hidden.append(attention_state.hidden)
            unrolled.contexts.append(attended)
            unrolled.language_lstm.append(language_state)
        return unrolled
