"""The parts a captioner is put together from: sentinels, compatibility scores, gates (section 3.1).

Each part computes what its equation says. ``paper`` and ``reference`` differ in which parts are handed in.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

MASKED = float("-inf")


class Sentinel(nn.Module):
    """A component of the memory to fall back on: sigmoid(W_i x + W_h h) * tanh(m), Eq. 2-3 and 7-8.

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
        memory: Float[Tensor, "rows hidden"],
    ) -> Float[Tensor, "rows hidden"]:
        """The sentinel vector."""
        return torch.sigmoid(self.from_input(inputs) + self.from_hidden(hidden)) * torch.tanh(memory)


class Compatibility(nn.Module):
    """Scores of vectors against the state: w_h^T tanh(W v + W_g h), Eq. 4-5.

    ``query`` (W_g) and ``score`` (w_h) belong to the state and are shared by all that is compared with it.
    """

    def __init__(self, feature_size: int, hidden_size: int, attention_size: int) -> None:
        super().__init__()
        self.query = nn.Linear(hidden_size, attention_size, bias=False)
        self.region_key = nn.Linear(feature_size, attention_size, bias=False)
        self.score = nn.Linear(attention_size, 1, bias=False)

    def forward(
        self, keys: Float[Tensor, "rows members attention"], query: Float[Tensor, "rows attention"]
    ) -> Float[Tensor, "rows members"]:
        """Score of each region whose key is given."""
        scores: Tensor = self.score(torch.tanh(keys + query[:, None]))
        return scores.squeeze(-1)


class SentinelScore(nn.Module):
    """Score of a sentinel in the same distribution, Eq. 4 and 9; the authors' code gives it a vector of its own."""

    def __init__(self, hidden_size: int, attention_size: int, *, own_vector: bool) -> None:
        super().__init__()
        self.key = nn.Linear(hidden_size, attention_size, bias=False)
        self.score = nn.Linear(attention_size, 1, bias=False) if own_vector else None

    def forward(
        self, sentinel: Float[Tensor, "rows hidden"], query: Float[Tensor, "rows attention"], shared: nn.Linear
    ) -> Float[Tensor, " rows"]:
        """Score of the sentinel, by its own vector or the shared one."""
        score: Tensor = (self.score or shared)(torch.tanh(self.key(sentinel) + query))
        return score.squeeze(-1)


class Attended(NamedTuple):
    """What a step looked at."""

    context: Float[Tensor, "rows features"]
    region_weights: Float[Tensor, "rows members"]
    sentinel_weight: Float[Tensor, " rows"]


def attend(
    regions: Float[Tensor, "rows members features"],
    region_scores: Float[Tensor, "rows members"],
    mask: Bool[Tensor, "rows members"],
    sentinel: Float[Tensor, "rows features"] | None,
    sentinel_score: Float[Tensor, " rows"] | None,
) -> Attended:
    """Adaptive attention over the regions of the current set and the visual sentinel, Eq. 9-10.

    Without a sentinel an empty set has nothing to attend: its context is zero.
    """
    scores = region_scores.masked_fill(~mask, MASKED)
    if sentinel is None or sentinel_score is None:
        is_empty = ~mask.any(dim=1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(is_empty, 0.0), dim=1).masked_fill(is_empty, 0.0)
        context = torch.einsum("rmf,rm->rf", regions, weights)
        return Attended(context, weights, torch.zeros_like(weights[:, 0]))
    weights = torch.softmax(torch.cat([scores, sentinel_score[:, None]], dim=1), dim=1)
    region_weights, sentinel_weight = weights[:, :-1], weights[:, -1]
    context = torch.einsum("rmf,rm->rf", regions, region_weights) + sentinel_weight[:, None] * sentinel
    return Attended(context, region_weights, sentinel_weight)


def lstm_step(
    gates: Float[Tensor, "rows gates"], more: Float[Tensor, "rows gates"], memory: Float[Tensor, "rows hidden"]
) -> tuple[Float[Tensor, "rows hidden"], Float[Tensor, "rows hidden"]]:
    """Hidden state and memory from the two sums that come into the four gates, in the order of ``nn.LSTMCell``."""
    if gates.is_cuda:  # one kernel for all of it, which torch has for its own cells
        hidden, memory, _ = torch.ops.aten._thnn_fused_lstm_cell(gates, more, memory, None, None)
        return hidden, memory
    take, forget, new, give = (gates + more).chunk(4, dim=1)
    memory = torch.sigmoid(forget) * memory + torch.sigmoid(take) * torch.tanh(new)
    return torch.sigmoid(give) * torch.tanh(memory), memory


def exact(dtype: torch.dtype) -> torch.dtype:
    """Float32 at least: half precision is too coarse for what is exponentiated or summed.

    >>> exact(torch.bfloat16), exact(torch.float64)
    (torch.float32, torch.float64)
    """
    return torch.promote_types(dtype, torch.float32)


def compute_dtype(weight: Tensor) -> torch.dtype:
    """The precision of products with a weight: autocast's where it is on, else the weight's own."""
    device = weight.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype


Gate = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From the sentinel's score, the regions' scores and their mask to log-probabilities of staying and shifting."""


def paper_gate(
    sentinel_score: Float[Tensor, " rows"],
    region_scores: Float[Tensor, "rows members"],
    mask: Bool[Tensor, "rows members"],
) -> Float[Tensor, "rows 2"]:
    """Log-probabilities of staying and shifting: the chunk sentinel's weight against the regions', Eq. 6.

    The equation has no case for an empty set, where it would make staying impossible and its loss infinite: such a set
    weighs as much as one region of score 0, as in the authors' code, and how long to stay there is learned.
    """
    regions = torch.logsumexp(region_scores.masked_fill(~mask, MASKED), dim=1).masked_fill(~mask.any(dim=1), 0.0)
    return torch.log_softmax(torch.stack([regions, sentinel_score], dim=1), dim=1)


def reference_gate(
    sentinel_score: Float[Tensor, " rows"],
    region_scores: Float[Tensor, "rows members"],
    mask: Bool[Tensor, "rows members"],
) -> Float[Tensor, "rows 2"]:
    """The authors' gate: a sum of scores where the paper has one of exponentials, and the sentinel means to stay."""
    regions = region_scores.masked_fill(~mask, 0.0).sum(dim=1)
    return torch.log_softmax(torch.stack([sentinel_score, regions], dim=1), dim=1)
