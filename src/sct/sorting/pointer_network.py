"""A pointer network: which set comes next, in view of all of them and of those that were named.

Beyond the paper, whose network scores each set by itself. This one lets the sets look at each other first, and
every choice depends on those before it: after "a man" comes what he holds, not what is next in an order of all things.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from sct.errors import InputError
from sct.sorting.batches import SortingBatch
from sct.sorting.interface import Permutations, SorterInputs

_GEOMETRY = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class PointerConfig:
    """Sizes of the pointer network."""

    word_size: int = 300
    """Of a class's word vector."""
    visual_size: int | None = 2048
    """Of a region's feature vector; None for a network that sees class and geometry alone."""
    hidden_size: int = 128
    layers: int = 2
    """In which sets look at each other."""
    heads: int = 4
    dropout: float = 0.1
    """Share of values that training leaves out at random."""

    def __post_init__(self) -> None:
        """Refuse sizes that are no sizes."""
        for name in ("word_size", "visual_size", "hidden_size", "layers", "heads"):
            value = getattr(self, name)
            if name == "visual_size" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"{name} is {value!r}: expected a whole number above 0")
        if self.hidden_size % self.heads:
            raise InputError(f"hidden_size {self.hidden_size} is not a multiple of the {self.heads} heads")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout is {self.dropout!r}: expected 0 up to but not including 1")


class PointerNetwork(nn.Module):
    """Encodes the sets of a control, then points at one after the other."""

    def __init__(self, config: PointerConfig) -> None:
        """Make the layers."""
        super().__init__()
        self.config = config
        size = config.hidden_size
        self.word = nn.Linear(config.word_size, size)
        self.geometry = nn.Linear(2 * _GEOMETRY + 1, size)
        self.visual = None if config.visual_size is None else nn.Linear(config.visual_size, size)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(size, config.heads, 2 * size, config.dropout, batch_first=True, norm_first=True)
            for _ in range(config.layers)
        )
        self.start = nn.Parameter(torch.zeros(size))
        self.recall = nn.GRUCell(size, size)
        self.first_state = nn.Linear(size, size)
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.score = nn.Linear(size, 1, bias=False)

    def encode(self, inputs: SorterInputs) -> Float[Tensor, "examples slots hidden"]:
        """What each set is, in view of the others; a set of several regions is their mean, size and extremes."""
        inputs.check_sizes(self.config.word_size, self.config.visual_size)
        found: Tensor = inputs.set_means(self.word(inputs.class_vectors)[inputs.region_class])
        found = found + self.geometry(_set_geometry(inputs))
        if self.visual is not None:
            found = found + inputs.set_means(self.visual(inputs.visual_features()))
        for layer in self.layers:
            found = layer(found, src_key_padding_mask=~inputs.mask)
        return found

    def begin(
        self, encoded: Float[Tensor, "rows slots hidden"], mask: Bool[Tensor, "rows slots"]
    ) -> Float[Tensor, "rows hidden"]:
        """The state before anything was named."""
        weights = mask.to(encoded.dtype)[:, :, None]
        mean = (encoded * weights).sum(dim=1) / weights.sum(dim=1)
        state: Tensor = self.recall(self.start.expand(len(encoded), -1), torch.tanh(self.first_state(mean)))
        return state

    def log_probs(
        self,
        state: Float[Tensor, "rows hidden"],
        encoded: Float[Tensor, "rows slots hidden"],
        left: Bool[Tensor, "rows slots"],
    ) -> Float[Tensor, "rows slots"]:
        """How likely each set that is left comes next; all 0 where none is left."""
        scores: Tensor = self.score(torch.tanh(self.query(state)[:, None] + self.key(encoded)))[:, :, 0]
        scores = scores.masked_fill(~left, -torch.inf)
        done = ~left.any(dim=1, keepdim=True)
        return scores.masked_fill(done, 0.0).log_softmax(dim=1).masked_fill(done, 0.0)


def next_set_loss(network: PointerNetwork, batch: SortingBatch) -> Float[Tensor, ""]:
    """Mean cross-entropy of the next set, given the true ones before it; the last one is no choice and not counted."""
    inputs = batch.inputs
    encoded = network.encode(inputs)
    state, left = network.begin(encoded, inputs.mask), inputs.mask
    losses, counted = [], []
    for place in range(inputs.mask.shape[1]):
        named = batch.truth[:, place]
        log_probs = network.log_probs(state, encoded, left)
        losses.append(-log_probs.gather(1, named[:, None])[:, 0])
        counted.append(left.sum(dim=1) > 1)
        left = left & ~functional.one_hot(named, left.shape[1]).bool()
        state = network.recall(torch.take_along_dim(encoded, named[:, None, None], dim=1)[:, 0], state)
    choices = torch.stack(counted)
    # A batch of controls of one set has nothing to learn from: 0, not 0 / 0.
    return (torch.stack(losses) * choices).sum() / choices.sum().clamp(min=1)


class PointerSorter:
    """Finds the likeliest order with a beam; with a beam of 1, the likeliest set at each step."""

    def __init__(self, network: PointerNetwork, *, beam_size: int = 5) -> None:
        """Take a network as it is; it is not copied."""
        if beam_size < 1:
            raise InputError(f"beam_size is {beam_size}: expected at least 1")
        self.network, self.beam_size = network, beam_size

    @torch.no_grad()
    def order(self, inputs: SorterInputs) -> Permutations:
        """The likeliest order and its probability."""
        network, (examples, slots) = self.network, inputs.mask.shape
        device = inputs.mask.device
        encoded = network.encode(inputs)
        beams = 1
        state, left = network.begin(encoded, inputs.mask), inputs.mask
        total = torch.zeros(examples, 1, device=device)
        order = torch.zeros(examples, 1, 0, dtype=torch.long, device=device)
        own = torch.arange(slots, device=device).expand(examples, 1, -1)
        for place in range(slots):
            log_probs = network.log_probs(state, encoded.repeat_interleave(beams, dim=0), left).unflatten(
                0, (-1, beams)
            )
            # Where all is named, the only way on is padding that keeps its place.
            padded = ~inputs.mask[:, None, place, None]
            ways = torch.where(padded & (own != place), -torch.inf, total[:, :, None] + log_probs).flatten(1)
            kept = min(self.beam_size, ways.shape[1])
            total, chosen = ways.topk(kept, dim=1)
            parent, named = chosen // slots, chosen % slots
            order = torch.cat([torch.take_along_dim(order, parent[:, :, None], dim=1), named[:, :, None]], dim=2)
            rows = (parent + beams * torch.arange(examples, device=device)[:, None]).flatten()
            left = left[rows] & ~functional.one_hot(named.flatten(), slots).bool()
            heard = torch.take_along_dim(encoded, named[:, :, None], dim=1).flatten(0, 1)
            state = network.recall(heard, state[rows])
            beams = kept
        return Permutations(order[:, 0], inputs.mask, total[:, 0].exp())


def _set_geometry(inputs: SorterInputs) -> Float[Tensor, "examples slots values"]:
    """Mean position of a set, the extent of its largest regions, and the logarithm of how many there are."""
    mean = inputs.set_means(inputs.positions)
    of_members = inputs.positions[inputs.set_rows].masked_fill(~inputs.set_mask[..., None], -torch.inf)
    largest = of_members.amax(dim=2).masked_fill(~inputs.mask[:, :, None], 0.0)
    number = inputs.set_mask.sum(dim=2, keepdim=True).clamp(min=1).to(mean.dtype).log()
    return torch.cat([mean, largest, number], dim=2)
