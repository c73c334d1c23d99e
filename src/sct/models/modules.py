"""Building blocks of caption models: sentinels, additive attention and chunk-shifting gates (section 3.1)."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

MASKED = float("-inf")


class Sentinel(nn.Module):
    """Visual or chunk sentinel: sigmoid(W_i x + W_h h) * tanh(m), Eq. 2-3 and 7-8.

    The equations have no bias; the authors' code has one in both products.
    """

    def __init__(self, input_size: int, hidden_size: int, *, bias: bool) -> None:
        super().__init__()
        self.from_input = nn.Linear(input_size, hidden_size, bias=bias)
        self.from_hidden = nn.Linear(hidden_size, hidden_size, bias=bias)

    def forward(
        self,
        inputs: Float[Tensor, "rows inputs"],
        hidden: Float[Tensor, "rows hidden"],
        cell: Float[Tensor, "rows hidden"],
    ) -> Float[Tensor, "rows hidden"]:
        """Sentinel vector from the LSTM's input, hidden state and cell state (m)."""
        return torch.sigmoid(self.from_input(inputs) + self.from_hidden(hidden)) * torch.tanh(cell)


class AdditiveAttention(nn.Module):
    """Attention scores of regions: w_h^T tanh(W_sr v + W_g h), Eq. 4-5.

    ``query`` (W_g) and ``score`` (w_h) are shared with the sentinels, which have keys of their own.
    """

    def __init__(self, feature_size: int, hidden_size: int, attention_size: int) -> None:
        super().__init__()
        self.query = nn.Linear(hidden_size, attention_size, bias=False)
        self.region_key = nn.Linear(feature_size, attention_size, bias=False)
        self.score = nn.Linear(attention_size, 1, bias=False)

    def forward(
        self, keys: Float[Tensor, "rows members attention"], query: Float[Tensor, "rows attention"]
    ) -> Float[Tensor, "rows members"]:
        """Score of each region from its key."""
        scores: Tensor = self.score(torch.tanh(keys + query[:, None]))
        return scores.squeeze(-1)


class SentinelScore(nn.Module):
    """Attention score of a sentinel, Eq. 4 and 9; with ``own_vector`` it has its own w_h, as in the authors' code."""

    def __init__(self, hidden_size: int, attention_size: int, *, own_vector: bool) -> None:
        super().__init__()
        self.key = nn.Linear(hidden_size, attention_size, bias=False)
        self.score = nn.Linear(attention_size, 1, bias=False) if own_vector else None

    def forward(
        self, sentinel: Float[Tensor, "rows hidden"], query: Float[Tensor, "rows attention"], shared: nn.Linear
    ) -> Float[Tensor, " rows"]:
        """Score by its own vector, or by the ``shared`` one."""
        score: Tensor = (self.score or shared)(torch.tanh(self.key(sentinel) + query))
        return score.squeeze(-1)


class AttentionOutput(NamedTuple):
    """Result of adaptive attention."""

    context: Float[Tensor, "rows features"]
    region_weights: Float[Tensor, "rows members"]
    sentinel_weight: Float[Tensor, " rows"]


def attend(
    regions: Float[Tensor, "rows members features"],
    region_scores: Float[Tensor, "rows members"],
    mask: Bool[Tensor, "rows members"],
    sentinel: Float[Tensor, "rows features"] | None,
    sentinel_score: Float[Tensor, " rows"] | None,
) -> AttentionOutput:
    """Adaptive attention over the regions of the current set and the visual sentinel, Eq. 9-10.

    Without a sentinel, the context of an empty set is zero.
    """
    if sentinel is None or sentinel_score is None:
        weights = masked_softmax(region_scores, mask)
        context = torch.einsum("rmf,rm->rf", regions, weights)
        return AttentionOutput(context, weights, torch.zeros_like(weights[:, 0]))
    scores = region_scores.masked_fill(~mask, MASKED)
    weights = torch.softmax(torch.cat([scores, sentinel_score[:, None]], dim=1), dim=1)
    region_weights, sentinel_weight = weights[:, :-1], weights[:, -1]
    context = torch.einsum("rmf,rm->rf", regions, region_weights) + sentinel_weight[:, None] * sentinel
    return AttentionOutput(context, region_weights, sentinel_weight)


def masked_softmax(
    scores: Float[Tensor, "*rows members"], mask: Bool[Tensor, "... members"]
) -> Float[Tensor, "*rows members"]:
    """Softmax over the unmasked members of each row; zeros where all are masked.

    >>> masked_softmax(torch.zeros(2, 2), torch.tensor([[True, True], [False, False]])).tolist()
    [[0.5, 0.5], [0.0, 0.0]]
    """
    is_empty = ~mask.any(dim=-1, keepdim=True)
    masked = scores.masked_fill(~mask, MASKED).masked_fill(is_empty, 0.0)
    return torch.softmax(masked, dim=-1).masked_fill(is_empty, 0.0)


def lstm_cell(
    gates: Float[Tensor, "rows gates"], more_gates: Float[Tensor, "rows gates"], cell: Float[Tensor, "rows hidden"]
) -> tuple[Float[Tensor, "rows hidden"], Float[Tensor, "rows hidden"]]:
    """Hidden and cell state from two summands of the gate pre-activations, in the gate order of ``nn.LSTMCell``."""
    if gates.is_cuda:  # the fused kernel of nn.LSTMCell
        hidden, cell, _ = torch.ops.aten._thnn_fused_lstm_cell(gates, more_gates, cell, None, None)
        return hidden, cell
    input_gate, forget_gate, candidate, output_gate = (gates + more_gates).chunk(4, dim=1)
    cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
    return torch.sigmoid(output_gate) * torch.tanh(cell), cell


def accumulate_dtype(dtype: torch.dtype) -> torch.dtype:
    """Precision of softmax and sums: at least float32.

    >>> accumulate_dtype(torch.bfloat16), accumulate_dtype(torch.float64)
    (torch.float32, torch.float64)
    """
    return torch.promote_types(dtype, torch.float32)


def compute_dtype(weight: Tensor) -> torch.dtype:
    """Precision of matrix products with a weight: autocast's if enabled, else the weight's own."""
    device = weight.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype


Gate = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Chunk-shifting gate: (sentinel score, region scores, region mask) -> log-probabilities of STAY and SHIFT."""


def paper_gate(
    sentinel_score: Float[Tensor, " rows"],
    region_scores: Float[Tensor, "rows members"],
    mask: Bool[Tensor, "rows members"],
) -> Float[Tensor, "rows 2"]:
    """Log-probabilities of STAY and SHIFT: softmax of the regions' total against the chunk sentinel, Eq. 6.

    For an empty set the equation would make STAY impossible and its loss infinite. Such a set weighs as much as one
    region of score 0, as in the authors' code.
    """
    regions = torch.logsumexp(region_scores.masked_fill(~mask, MASKED), dim=1).masked_fill(~mask.any(dim=1), 0.0)
    return torch.log_softmax(torch.stack([regions, sentinel_score], dim=1), dim=1)


def reference_gate(
    sentinel_score: Float[Tensor, " rows"],
    region_scores: Float[Tensor, "rows members"],
    mask: Bool[Tensor, "rows members"],
) -> Float[Tensor, "rows 2"]:
    """The authors' gate: it sums scores instead of exponentials, and the sentinel votes for STAY."""
    regions = region_scores.masked_fill(~mask, 0.0).sum(dim=1)
    return torch.log_softmax(torch.stack([sentinel_score, regions], dim=1), dim=1)
