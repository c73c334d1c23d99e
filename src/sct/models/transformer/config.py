"""Config of the transformer captioner: sizes, depth and ablation switches."""

from dataclasses import dataclass
from typing import Literal, get_args

from sct.errors import InputError
from sct.limits import MAX_LAYER_SIZE, MAX_LAYERS, check_integer
from sct.models.config import CaptionerConfig, Variant

GateInput = Literal["word", "state"]


@dataclass(frozen=True, kw_only=True)  # without slots: a class has at most one base with slots
class TransformerOptions:
    """What a transformer has beyond other captioners: sizes and ablation switches."""

    num_heads: int = 8
    """Attention heads, of ``attention_size`` together."""
    feedforward_size: int = 1536
    """Hidden size of the feed-forward layers."""
    encoder_depth: int = 3
    """Encoder layers; 0 leaves regions as they are projected."""
    decoder_depth: int = 4
    """Decoder layers."""
    gate_size: int = 64
    """Size of the word embeddings of the gate."""
    max_distance: int = 8
    """Distance from the pointer, in region sets, from which on all have the same bias."""
    max_slots: int = 16
    """Region sets with a slot embedding of their own; those after them share the last."""
    pointer_bias: bool = True
    """Bias cross-attention by distance from the pointer; without it only embeddings tell where the pointer is."""
    null_token: bool = True
    """Give each region set a null token, in the role of the visual sentinel."""
    gate_input: GateInput = "word"
    """Whether the gate sees the word that it decides after, or the decoder's state only."""
    dropout: float = 0.1
    """Dropout on ground-truth captions in training; sampled captions have none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerConfig(TransformerOptions, CaptionerConfig):
    """Sizes of the transformer; ``hidden_size`` is its width, ``attention_size`` that of all heads together."""

    word_size: int = 384
    """Size of a word embedding; one that differs from ``hidden_size`` is projected."""
    hidden_size: int = 384
    """Width of encoder and decoder."""
    attention_size: int = 384
    """Size of attention keys and queries, all heads together."""
    variant: Variant = "transformer"
    """Model."""

    def __post_init__(self) -> None:
        """Check sizes and combinations."""
        # Not super(): dataclasses with slots are made twice.
        CaptionerConfig.__post_init__(self)
        for name in ("num_heads", "feedforward_size", "gate_size", "max_distance", "max_slots"):
            check_integer(name, getattr(self, name), 1, MAX_LAYER_SIZE)
        check_integer("encoder_depth", self.encoder_depth, 0, MAX_LAYERS)
        check_integer("decoder_depth", self.decoder_depth, 1, MAX_LAYERS)
        if self.attention_size % (2 * self.num_heads):
            raise InputError(
                f"got attention_size {self.attention_size} for {self.num_heads} heads, expected a multiple of "
                f"{2 * self.num_heads}: rotary positions turn pairs of numbers in each head"
            )
        if self.gate_input not in get_args(GateInput):
            raise InputError(f"got gate_input {self.gate_input!r}, expected {' or '.join(get_args(GateInput))}")
        if not 0 <= self.dropout < 1:
            raise InputError(f"got dropout {self.dropout}, expected 0 or more and below 1")
        if self.image_in_language_lstm:
            raise InputError("got image_in_language_lstm for the transformer, which has no LSTM: set it to false")
