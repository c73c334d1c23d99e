"""Pointer network sorter: self-attention over the region sets, then an autoregressive choice of the next set.

Not in the paper, whose network scores each set independently. Here every choice depends on the sets before it: after
"a man" comes what he holds.
"""

from dataclasses import asdict, dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from sct.errors import InputError, format_value
from sct.limits import MAX_BEAM_SIZE, MAX_LAYER_SIZE, MAX_LAYERS, check_integer
from sct.sorting.batches import SorterBatch
from sct.sorting.interface import (
    GEOMETRY_SIZE,
    Permutations,
    Sorter,
    SorterInputs,
    SorterState,
    build_with_weights,
    check_sizes,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PointerConfig:
    """Config of the pointer network."""

    word_size: int = 300
    """Size of class word vectors."""
    visual_size: int | None = 2048
    """Size of region features; None: class and geometry only."""
    hidden_size: int = 128
    num_layers: int = 2
    """Transformer encoder layers."""
    num_heads: int = 4
    dropout: float = 0.1

    def __post_init__(self) -> None:
        """Check the values."""
        sizes = dict.fromkeys(("word_size", "visual_size", "hidden_size"), MAX_LAYER_SIZE)
        check_sizes(self, {**sizes, "num_layers": MAX_LAYERS, "num_heads": MAX_LAYERS})
        if self.hidden_size % self.num_heads:
            raise InputError(f"hidden_size is {self.hidden_size}: expected a multiple of num_heads, {self.num_heads}")
        if not isinstance(self.dropout, float | int) or not 0 <= self.dropout < 1:
            raise InputError(f"dropout is {format_value(self.dropout)}: expected 0 or more and below 1")


class PointerNetwork(nn.Module):
    """Encodes the sets of a control, then points at one after the other."""

    def __init__(self, config: PointerConfig) -> None:
        super().__init__()
        self.config = config
        size = config.hidden_size
        self.word_fc = nn.Linear(config.word_size, size)
        self.geometry_fc = nn.Linear(2 * GEOMETRY_SIZE + 1, size)
        self.visual_fc = None if config.visual_size is None else nn.Linear(config.visual_size, size)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                size, config.num_heads, 2 * size, config.dropout, batch_first=True, norm_first=True
            )
            for _ in range(config.num_layers)
        )
        self.start = nn.Parameter(torch.zeros(size))
        self.gru = nn.GRUCell(size, size)
        self.init_hidden = nn.Linear(size, size)
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.score = nn.Linear(size, 1, bias=False)

    def encode(self, inputs: SorterInputs) -> Float[Tensor, "examples slots hidden"]:
        """Embeddings of the sets: mean over regions, geometry, then self-attention between sets."""
        inputs.check_sizes(self.config.word_size, self.config.visual_size)
        encoded: Tensor = inputs.set_means(self.word_fc(inputs.class_vectors)[inputs.region_class])
        encoded = encoded + self.geometry_fc(_set_geometry(inputs))
        if self.visual_fc is not None:
            encoded = encoded + inputs.set_means(self.visual_fc(inputs.require_features()))
        for layer in self.layers:
            encoded = layer(encoded, src_key_padding_mask=~inputs.mask)
        return encoded

    def init_state(
        self, encoded: Float[Tensor, "rows slots hidden"], mask: Bool[Tensor, "rows slots"]
    ) -> Float[Tensor, "rows hidden"]:
        """Decoder state before the first choice."""
        weights = mask.to(encoded.dtype)[:, :, None]
        mean = (encoded * weights).sum(dim=1) / weights.sum(dim=1)
        state: Tensor = self.gru(self.start.expand(len(encoded), -1), torch.tanh(self.init_hidden(mean)))
        return state

    def log_probs(
        self,
        state: Float[Tensor, "rows hidden"],
        encoded: Float[Tensor, "rows slots hidden"],
        remaining: Bool[Tensor, "rows slots"],
    ) -> Float[Tensor, "rows slots"]:
        """Log-probability of each remaining set to come next; all 0 if none remains."""
        scores: Tensor = self.score(torch.tanh(self.query(state)[:, None] + self.key(encoded)))[:, :, 0]
        scores = scores.masked_fill(~remaining, -torch.inf)
        done = ~remaining.any(dim=1, keepdim=True)
        return scores.masked_fill(done, 0.0).log_softmax(dim=1).masked_fill(done, 0.0)


def next_set_loss(network: PointerNetwork, batch: SorterBatch) -> Float[Tensor, ""]:
    """Mean cross-entropy of the next set with teacher forcing; the last set, the only one left, is not counted."""
    inputs = batch.inputs
    encoded = network.encode(inputs)
    state, remaining = network.init_state(encoded, inputs.mask), inputs.mask
    losses, counted = [], []
    for position in range(inputs.mask.shape[1]):
        chosen = batch.target[:, position]
        log_probs = network.log_probs(state, encoded, remaining)
        losses.append(-log_probs.gather(1, chosen[:, None])[:, 0])
        counted.append(remaining.sum(dim=1) > 1)
        remaining = remaining & ~functional.one_hot(chosen, remaining.shape[1]).bool()
        state = network.gru(torch.take_along_dim(encoded, chosen[:, None, None], dim=1)[:, 0], state)
    choices = torch.stack(counted)
    # A batch of controls of one set has no choice: 0, not 0 / 0.
    return (torch.stack(losses) * choices).sum() / choices.sum().clamp(min=1)


class PointerSorter(Sorter):
    """Most likely order under the pointer network, found by beam search."""

    kind = "pointer"

    def __init__(self, network: PointerNetwork, *, beam_size: int = 5) -> None:
        """Use a network without copying it."""
        check_integer("beam_size", beam_size, 1, MAX_BEAM_SIZE)
        self.network, self.beam_size = network, beam_size

    @torch.no_grad()
    def order(self, inputs: SorterInputs) -> Permutations:
        """Most likely order and its probability."""
        network, (examples, slots) = self.network, inputs.mask.shape
        device = inputs.mask.device
        encoded = network.encode(inputs)
        beams = 1
        state, remaining = network.init_state(encoded, inputs.mask), inputs.mask
        total = torch.zeros(examples, 1, device=device)
        order = torch.zeros(examples, 1, 0, dtype=torch.long, device=device)
        slot = torch.arange(slots, device=device).expand(examples, 1, -1)
        for position in range(slots):
            log_probs = network.log_probs(state, encoded.repeat_interleave(beams, dim=0), remaining)
            log_probs = log_probs.unflatten(0, (-1, beams))
            # Padding stays in place.
            is_padding = ~inputs.mask[:, None, position, None]
            scores = torch.where(is_padding & (slot != position), -torch.inf, total[:, :, None] + log_probs).flatten(1)
            num_kept = min(self.beam_size, scores.shape[1])
            total, top = scores.topk(num_kept, dim=1)
            parent, chosen = top // slots, top % slots
            order = torch.cat([torch.take_along_dim(order, parent[:, :, None], dim=1), chosen[:, :, None]], dim=2)
            rows = (parent + beams * torch.arange(examples, device=device)[:, None]).flatten()
            remaining = remaining[rows] & ~functional.one_hot(chosen.flatten(), slots).bool()
            chosen_encoded = torch.take_along_dim(encoded, chosen[:, :, None], dim=1).flatten(0, 1)
            state = network.gru(chosen_encoded, state[rows])
            beams = num_kept
        return Permutations(order[:, 0], inputs.mask, total[:, 0].exp())

    @property
    def is_visual(self) -> bool:
        """Whether the network uses region features."""
        return self.network.config.visual_size is not None

    def state(self) -> SorterState:
        """Config and weights of the network, and the beam size."""
        return SorterState({**asdict(self.network.config), "beam_size": self.beam_size}, self.network.state_dict())

    @classmethod
    def from_state(cls, state: SorterState, source: object) -> "PointerSorter":
        """Rebuild the network."""
        config = dict(state.config)
        beam_size = config.pop("beam_size")
        sizes = PointerConfig(**{"visual_size": None, **config})
        return cls(build_with_weights(lambda: PointerNetwork(sizes), state.weights, source), beam_size=beam_size)


def _set_geometry(inputs: SorterInputs) -> Float[Tensor, "examples slots values"]:
    """Mean position, maximum position and size over regions, and the log of the number of regions of each set."""
    mean = inputs.set_means(inputs.positions)
    member_positions = inputs.positions[inputs.set_rows].masked_fill(~inputs.set_mask[..., None], -torch.inf)
    maximum = member_positions.amax(dim=2).masked_fill(~inputs.mask[:, :, None], 0.0)
    log_count = inputs.set_mask.sum(dim=2, keepdim=True).clamp(min=1).to(mean.dtype).log()
    return torch.cat([mean, maximum, log_count], dim=2)
