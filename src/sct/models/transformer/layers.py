"""Layers of the transformer captioner, written once for training, full recomputation and decoding with a KV cache.

A layer is a record of linear layers and norms that are called: modules in training, copies of their weights in
decoding, where ``LinearBackend`` chooses int8. Inputs may have any number of time steps.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from sct.models.linear import Linear
from sct.models.modules import accumulate_dtype

ROTARY_BASE = 10_000.0
Dropout = Callable[[Tensor], Tensor]


class Attention(NamedTuple):
    """Result of multi-head attention."""

    context: Float[Tensor, "rows time attention"]
    log_weights: Float[Tensor, "rows heads time tokens"]


@dataclass(frozen=True, slots=True, eq=False)
class FeedForward:
    """Pre-norm feed-forward layer."""

    norm: Linear
    expand: Linear
    contract: Linear

    def __call__(
        self, hidden: Float[Tensor, "rows time hidden"], dropout: Dropout
    ) -> Float[Tensor, "rows time hidden"]:
        """Add the layer's output to its input."""
        inner = functional.gelu(apply_linear(self.expand, self.norm(hidden)))
        return hidden + dropout(apply_linear(self.contract, inner))


@dataclass(frozen=True, slots=True, eq=False)
class EncoderLayer:
    """Pre-norm self-attention over all tokens of an example, then a feed-forward layer."""

    num_heads: int
    norm: Linear
    query_key_value: Linear
    output: Linear
    feedforward: FeedForward

    def __call__(
        self, tokens: Float[Tensor, "examples tokens hidden"], mask: Bool[Tensor, "examples tokens"], dropout: Dropout
    ) -> Float[Tensor, "examples tokens hidden"]:
        """Update all tokens; ``mask`` marks the real ones."""
        query, key, value = split_heads(apply_linear(self.query_key_value, self.norm(tokens)), 3, self.num_heads)
        bias = torch.zeros_like(mask, dtype=accumulate_dtype(tokens.dtype)).masked_fill_(~mask, -torch.inf)
        attention = attend(query, key, value, bias[:, None, None])
        return self.feedforward(tokens + dropout(apply_linear(self.output, attention.context)), dropout)


@dataclass(frozen=True, slots=True, eq=False)
class DecoderLayer:
    """Pre-norm causal self-attention, cross-attention to the encoder's tokens, and a feed-forward layer."""

    num_heads: int
    self_norm: Linear
    query_key_value: Linear
    self_output: Linear
    cross_norm: Linear
    cross_query: Linear
    cross_output: Linear
    feedforward: FeedForward

    def __call__(
        self,
        hidden: Float[Tensor, "rows time hidden"],
        past: Float[Tensor, "rows past 2 heads head"] | None,
        memory: Float[Tensor, "batch tokens 2 heads head"],
        memory_bias: Float[Tensor, "batch heads queries tokens"],
        dropout: Dropout,
    ) -> tuple[
        Float[Tensor, "rows time hidden"],
        Float[Tensor, "rows past_and_time 2 heads head"],
        Float[Tensor, "batch heads queries tokens"],
    ]:
        """New hidden states, keys and values of all steps so far, and log-weights of cross-attention.

        ``memory`` holds the keys and values of the encoder's tokens, of each row or, to store them once, of each
        example whose captions are adjacent rows.
        """
        num_rows, num_steps, _ = hidden.shape
        first = 0 if past is None else past.shape[1]
        query, key, value = split_heads(apply_linear(self.query_key_value, self.self_norm(hidden)), 3, self.num_heads)
        rotation = rotary_angles(first, num_steps, query)
        new = torch.stack([rotate(key, rotation), value], dim=2)
        cache = new if past is None else torch.cat([past, new], dim=1)
        attention = attend(
            rotate(query, rotation), cache[:, :, 0], cache[:, :, 1], causal_bias(first, num_steps, hidden)
        )
        hidden = hidden + dropout(apply_linear(self.self_output, attention.context))

        (query,) = split_heads(apply_linear(self.cross_query, self.cross_norm(hidden)), 1, self.num_heads)
        query = query.reshape(len(memory), -1, *query.shape[2:])
        attention = attend(query, memory[:, :, 0], memory[:, :, 1], memory_bias)
        context = attention.context.reshape(num_rows, num_steps, -1)
        hidden = hidden + dropout(apply_linear(self.cross_output, context))
        return self.feedforward(hidden, dropout), cache, attention.log_weights


def apply_linear(linear: Linear, inputs: Float[Tensor, "rows time inputs"]) -> Float[Tensor, "rows time outputs"]:
    """Apply a linear layer, which takes rows only, to all time steps."""
    return linear(inputs.flatten(0, 1)).reshape(*inputs.shape[:2], -1)


def split_heads(
    inputs: Float[Tensor, "rows time features"], num_parts: int, num_heads: int
) -> tuple[Float[Tensor, "rows time heads head"], ...]:
    """Split the last dimension into parts (query, key, value), each with its heads."""
    return inputs.reshape(*inputs.shape[:2], num_parts, num_heads, -1).unbind(2)


def attend(
    query: Float[Tensor, "batch queries heads head"],
    key: Float[Tensor, "batch tokens heads head"],
    value: Float[Tensor, "batch tokens heads head"],
    bias: Float[Tensor, "... tokens"],
) -> Attention:
    """Scaled dot-product attention with a bias; tokens with a bias of minus infinity have no weight."""
    scores = torch.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(query.shape[-1])
    log_weights = torch.log_softmax(scores.to(accumulate_dtype(scores.dtype)) + bias, dim=-1)
    context = torch.einsum("bhqk,bkhd->bqhd", log_weights.exp().to(value.dtype), value)
    return Attention(context.flatten(2), log_weights)


def causal_bias(first: int, num_steps: int, like: Tensor) -> Float[Tensor, "time past_and_time"]:
    """Bias of self-attention for steps from ``first`` on: minus infinity for later steps."""
    bias = torch.full(
        (num_steps, first + num_steps), -torch.inf, device=like.device, dtype=accumulate_dtype(like.dtype)
    )
    return bias.triu_(first + 1)


def rotary_angles(first: int, num_steps: int, like: Float[Tensor, "... head"]) -> Float[Tensor, "time 1 half"]:
    """Angles of rotary positions (Su et al. 2021) of the steps from ``first`` on; any number of steps has them."""
    dtype, half = accumulate_dtype(like.dtype), like.shape[-1] // 2
    exponents = torch.arange(half, device=like.device, dtype=dtype) / half
    steps = torch.arange(first, first + num_steps, device=like.device, dtype=dtype)
    return steps[:, None, None] * ROTARY_BASE**-exponents


def rotate(
    heads: Float[Tensor, "rows time heads head"], angles: Float[Tensor, "time 1 half"]
) -> Float[Tensor, "rows time heads head"]:
    """Turn pairs of numbers by the angles of their positions."""
    left, right = heads.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1).to(heads.dtype)
