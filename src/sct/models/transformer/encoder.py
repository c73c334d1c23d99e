"""Modules of the transformer captioner: the token encoder, and the weights of encoder and decoder layers."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from sct.models.inputs import ControlBatch
from sct.models.transformer.config import TransformerConfig
from sct.models.transformer.layers import DecoderLayer, Dropout, EncoderLayer, FeedForward
from sct.models.transformer.memory import TokenLayout, TokenType


class EncodedTokens(NamedTuple):
    """Encoder output."""

    layout: TokenLayout
    tokens: Float[Tensor, "examples tokens hidden"]


class _SelfAttention(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.hidden_size)
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.attention_size)
        self.output = nn.Linear(config.attention_size, config.hidden_size)


class _CrossAttention(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.hidden_size)
        self.query = nn.Linear(config.hidden_size, config.attention_size)
        self.key_value = nn.Linear(config.hidden_size, 2 * config.attention_size)
        self.output = nn.Linear(config.attention_size, config.hidden_size)


class _FeedForward(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.hidden_size)
        self.expand = nn.Linear(config.hidden_size, config.feedforward_size)
        self.contract = nn.Linear(config.feedforward_size, config.hidden_size)

    def layer(self) -> FeedForward:
        return FeedForward(self.norm, self.expand, self.contract)


class EncoderLayerWeights(nn.Module):
    """Weights of an ``EncoderLayer``."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.attention = _SelfAttention(config)
        self.feedforward = _FeedForward(config)

    def layer(self) -> EncoderLayer:
        """Layer with these weights."""
        own = self.attention
        return EncoderLayer(self.num_heads, own.norm, own.query_key_value, own.output, self.feedforward.layer())


class DecoderLayerWeights(nn.Module):
    """Weights of a ``DecoderLayer``."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.attention = _SelfAttention(config)
        self.cross_attention = _CrossAttention(config)
        self.feedforward = _FeedForward(config)

    def layer(self) -> DecoderLayer:
        """Layer with these weights."""
        own, cross = self.attention, self.cross_attention
        return DecoderLayer(
            self.num_heads,
            own.norm,
            own.query_key_value,
            own.output,
            cross.norm,
            cross.query,
            cross.output,
            self.feedforward.layer(),
        )


class TokenEncoder(nn.Module):
    """Encoder over the regions of all sets, their null tokens and the image.

    Boxes have no embedding of their own: region features, from a vision encoder or from a layout, contain the geometry.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.null_token = config.null_token
        self.feature_projection = nn.Linear(config.feature_size, hidden)
        self.slot_embedding = nn.Embedding(config.max_slots, hidden)
        self.type_embedding = nn.Embedding(len(TokenType), hidden)
        self.layers = nn.ModuleList(EncoderLayerWeights(config) for _ in range(config.encoder_depth))
        self.norm = nn.LayerNorm(hidden)

    def forward(self, batch: ControlBatch, dropout: Dropout | None = None) -> EncodedTokens:
        """Encode a batch that has its end slot."""
        layout = TokenLayout.build(batch, null_token=self.null_token)
        types, slots = self.type_embedding.weight, self.slot_embeddings(layout.num_sets)
        dtype = self.feature_projection.weight.dtype
        projected = self.feature_projection(batch.regions.to(dtype))
        sets = functional.embedding(batch.set_rows, projected) + slots[:, None] + types[TokenType.REGION]
        if self.null_token:
            null = torch.where(layout.is_empty[..., None], types[TokenType.EMPTY], types[TokenType.NULL])
            sets = torch.cat([sets, (slots + null)[:, :, None]], dim=2)
        image = self.feature_projection(batch.image.to(dtype)) + types[TokenType.IMAGE]
        tokens = torch.cat([sets.flatten(1, 2), image[:, None]], dim=1)
        for weights in self.layers:
            assert isinstance(weights, EncoderLayerWeights)
            tokens = weights.layer()(tokens, layout.token_mask, dropout or nn.Identity())
        return EncodedTokens(layout, self.norm(tokens))

    def slot_embeddings(self, num_sets: int) -> Float[Tensor, "slots hidden"]:
        """Embedding of each slot; the last one is shared by all slots after it."""
        weight = self.slot_embedding.weight
        return weight[torch.arange(num_sets, device=weight.device).clamp(max=len(weight) - 1)]

    def embed_pointers(
        self, pointers: Int[Tensor, "rows time"], is_empty: Bool[Tensor, "rows slots"]
    ) -> Float[Tensor, "rows time hidden"]:
        """Embedding of the slot under the pointer, which the decoder reads with the previous word."""
        slots = self.slot_embeddings(is_empty.shape[1])[pointers]
        return slots + is_empty.gather(1, pointers)[..., None] * self.type_embedding.weight[TokenType.EMPTY]
