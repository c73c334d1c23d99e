"""Decoder of ``TransformerCaptioner``: a copy of the weights, and keys and values of earlier steps in a KV cache.

The cache grows by one step at a time and is reordered with the beam. Shapes depend on the number of steps only, so that
a search without early stop can be captured as a CUDA graph.
"""

import copy
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from sct.decoding.interface import Step
from sct.errors import InputError
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.linear import DENSE, Linear, LinearBackend, LinearFactory, dense_linear
from sct.models.modules import accumulate_dtype
from sct.models.transformer.encoder import DecoderLayerWeights
from sct.models.transformer.layers import DecoderLayer, FeedForward, apply_linear, split_heads
from sct.models.transformer.memory import TokenLayout, pointed_weights, slot_bias, token_bias
from sct.models.transformer.model import TransformerCaptioner, shift_log_probs

_no_dropout = nn.Identity()


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """Contributions to each step that stay the same throughout a caption."""

    layout: TokenLayout
    keys_and_values: tuple[Float[Tensor, "examples tokens 2 heads head"], ...]
    """Of the encoder's tokens, in each decoder layer."""
    bias: Float[Tensor, "pointers layers heads slots_and_one"]
    """Of cross-attention, for each position of the pointer."""


@dataclass(frozen=True, slots=True, eq=False)
class TransformerState:
    """KV cache and pointer of each row."""

    memory: Memory
    example: Int[Tensor, " rows"]
    pointer: Int[Tensor, " rows"]
    cache: tuple[Float[Tensor, "rows time 2 heads head"], ...]
    """Keys and values of the steps so far, in each decoder layer; empty before the first."""
    attention_weights: Float[Tensor, "rows members_and_sentinel"] | None = None
    """Of the step that led to this state: the members of its set, then its null token."""

    def select(self, rows: Int[Tensor, " chosen"]) -> "TransformerState":
        """State of the chosen rows, without attention weights."""
        return replace(
            self,
            example=self.example.index_select(0, rows),
            pointer=self.pointer.index_select(0, rows),
            cache=tuple(layer.index_select(0, rows) for layer in self.cache),
            attention_weights=None,
        )


class TransformerDecoder:
    """Decoder of ``TransformerCaptioner`` with a copy of its weights.

    ``backend`` holds for the matrices of every step: its attention layer for those of attention and the gate, its
    language layer for the feed-forward layers and the vocabulary projection. The encoder, used once per caption, is
    dense. Everything but scores and log-probabilities, which are float32, is computed in ``dtype``.
    """

    has_latents = False
    has_attention = True

    @torch.no_grad()
    def __init__(
        self, model: TransformerCaptioner, backend: LinearBackend = DENSE, dtype: torch.dtype = torch.float32
    ) -> None:
        self.config: CaptionerConfig = model.config
        self.dtype = dtype
        self._num_heads, self._null_token = model.config.num_heads, model.config.null_token
        self._encoder = copy.deepcopy(model.encoder).requires_grad_(False).eval().to(dtype)
        words = model.word_inputs(torch.arange(model.config.vocabulary_size, device=model.word_embedding.weight.device))
        self._word_inputs = words.to(dtype)
        self._layers, self._key_values = [], []
        for weights in model.decoder:
            assert isinstance(weights, DecoderLayerWeights)
            self._layers.append(_freeze_layer(weights, backend, dtype))
            self._key_values.append(_freeze(weights.cross_attention.key_value, dense_linear, dtype))
        self._bias_table = model.bias_table().detach().clone()
        self._final_norm = _freeze_norm(model.final_norm, dtype)
        self._vocab_projection = _freeze(model.vocab_projection, backend.language_layer, dtype)
        self._gate_state = _freeze(model.gate_state, dense_linear, dtype)
        self._gate_words: Linear | None = None
        if model.gate_query is not None and model.gate_words is not None:
            self._gate_query = _freeze(model.gate_query, backend.attention_layer, dtype)
            self._gate_words = backend.attention_layer(model.gate_words.weight.detach().to(dtype))

    @torch.inference_mode()
    def init_state(self, batch: ControlBatch, latents: Int[Tensor, " examples"] | None = None) -> TransformerState:
        """State before the first word, one row per example."""
        if latents is not None:
            raise InputError(f"got latents for variant {self.config.variant!r}, which has none: leave them out")
        batch = batch.with_end_slot(self.config).to(batch.image.device, self.dtype)
        layout, tokens = self._encoder(batch)
        memory = Memory(
            layout,
            tuple(
                torch.stack(split_heads(apply_linear(key_value, tokens), 2, self._num_heads), dim=2)
                for key_value in self._key_values
            ),
            slot_bias(self._bias_table, layout.num_sets),
        )
        num_examples, device = len(batch.image), batch.image.device
        return TransformerState(
            memory,
            torch.arange(num_examples, device=device),
            torch.zeros(num_examples, dtype=torch.long, device=device),
            (),
        )

    @torch.inference_mode()
    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: TransformerState) -> Step:
        """Move the pointer by the previous shifts (Eq. 1) and predict the next words and shifts."""
        memory, layout, example = state.memory, state.memory.layout, state.example
        pointer = torch.minimum(state.pointer + shifts, layout.num_slots[example] - 1)
        pointed = self._encoder.embed_pointers(pointer[:, None], layout.is_empty.index_select(0, example))
        hidden = self._word_inputs.index_select(0, tokens)[:, None] + pointed
        set_mask = layout.set_mask.index_select(0, example)
        bias = token_bias(
            memory.bias.index_select(0, pointer), layout.token_mask.index_select(0, example), set_mask.shape[2]
        )
        cache, log_weights = [], bias
        for number, (layer, keys_and_values) in enumerate(zip(self._layers, memory.keys_and_values, strict=True)):
            hidden, layer_cache, log_weights = layer(
                hidden,
                state.cache[number] if state.cache else None,
                keys_and_values.index_select(0, example),
                bias[:, :, number : number + 1],
                _no_dropout,
            )
            cache.append(layer_cache)
        final = self._final_norm(hidden[:, 0])
        logits = self._vocab_projection(final)
        return Step(
            torch.log_softmax(logits, dim=1, dtype=accumulate_dtype(logits.dtype)),
            shift_log_probs(self._gate_logits(final)),
            TransformerState(
                memory,
                example,
                pointer,
                tuple(cache),
                pointed_weights(log_weights[:, :, 0], set_mask, pointer, null_token=self._null_token),
            ),
        )

    def _gate_logits(self, hidden: Float[Tensor, "rows hidden"]) -> Float[Tensor, "..."]:
        """Log-odds of SHIFT: after every word of the vocabulary, or one number if the gate does not see the word."""
        of_state = self._gate_state(hidden)
        of_state = of_state.to(accumulate_dtype(of_state.dtype))
        if self._gate_words is None:
            return of_state[:, 0]
        return of_state + self._gate_words(self._gate_query(hidden))


def _freeze_layer(weights: DecoderLayerWeights, backend: LinearBackend, dtype: torch.dtype) -> DecoderLayer:
    own, cross, feedforward = weights.attention, weights.cross_attention, weights.feedforward
    attention, language = backend.attention_layer, backend.language_layer
    return DecoderLayer(
        weights.num_heads,
        _freeze_norm(own.norm, dtype),
        _freeze(own.query_key_value, attention, dtype),
        _freeze(own.output, attention, dtype),
        _freeze_norm(cross.norm, dtype),
        _freeze(cross.query, attention, dtype),
        _freeze(cross.output, attention, dtype),
        FeedForward(
            _freeze_norm(feedforward.norm, dtype),
            _freeze(feedforward.expand, language, dtype),
            _freeze(feedforward.contract, language, dtype),
        ),
    )


def _freeze(linear: nn.Linear, factory: LinearFactory, dtype: torch.dtype) -> Linear:
    return factory(linear.weight.detach().to(dtype), linear.bias.detach().to(dtype))


def _freeze_norm(norm: nn.LayerNorm, dtype: torch.dtype) -> Linear:
    shape, eps = norm.normalized_shape, norm.eps
    weight, bias = (values.detach().to(dtype, copy=True) for values in (norm.weight, norm.bias))
    return lambda hidden: functional.layer_norm(hidden, shape, weight, bias, eps)
