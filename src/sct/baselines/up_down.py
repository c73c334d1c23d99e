"""Up-Down (Anderson et al. 2018): a layer that decides where to look, and a layer that speaks of what it sees.

Ours is this captioner with sentinels and a gate. Here attention goes to all regions that are shown: those of the whole
image, or, to make it controllable, those of the control alone, all region sets together. It cannot tell their order.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from sct.baselines.word_system import Heard, Layer, Memory, WordSystem, no_memory
from sct.model.config import CaptionerConfig
from sct.model.inputs import ControlInputs
from sct.model.parts import MASKED, Compatibility


@dataclass(frozen=True, slots=True, eq=False)
class UpDownState:
    """Memory of both layers; what does not change over time is shared, not copied."""

    image: Float[Tensor, "examples features"]
    regions: Float[Tensor, "examples pool features"]
    keys: Float[Tensor, "examples pool attention"]
    """What attention compares with, of each region."""
    mask: Bool[Tensor, "examples pool"]
    example: Int[Tensor, " rows"]
    bottom: Memory
    top: Memory
    is_in_order: bool = field(default=True, kw_only=True)
    """Whether each row is of the example of its number: nothing needs to be gathered then."""

    def select(self, rows: Int[Tensor, " chosen"]) -> "UpDownState":
        """The state of the chosen rows."""
        return replace(
            self,
            example=self.example.index_select(0, rows),
            bottom=self.bottom.select(rows),
            top=self.top.select(rows),
            is_in_order=False,
        )

    def of_rows(self, of_examples: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        """What each row has, from what each example has."""
        return of_examples if self.is_in_order else of_examples.index_select(0, self.example)


class Looked(NamedTuple):
    """What the upper layer is to think of."""

    seen: Float[Tensor, "rows seen"]
    bottom: Memory


class UpDown(WordSystem):
    """Says words, attending to all regions that it is shown."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__(config)
        hidden, features = config.hidden_size, config.feature_size
        self.bottom = Layer(hidden + features + config.word_size, hidden)
        self.top = Layer(hidden + features * (2 if config.image_in_top_layer else 1), hidden)
        self.compatibility = Compatibility(features, hidden, config.attention_size)
        self.reset_parameters()

    def begin(self, inputs: ControlInputs) -> UpDownState:
        """The state before the first word; a region that several sets name is shown as often."""
        num_examples = len(inputs.image)
        pool = inputs.set_rows.flatten(1)
        regions = inputs.regions.index_select(0, pool.flatten()).view(*pool.shape, -1)
        memory = no_memory(num_examples, self.config.hidden_size, inputs.image)
        return UpDownState(
            inputs.image,
            regions,
            self.compatibility.region_key(regions),
            inputs.set_mask.flatten(1),
            torch.arange(num_examples, device=inputs.image.device),
            memory,
            memory,
        )

    def embedded(self, tokens: Int[Tensor, " rows"], state: UpDownState) -> Float[Tensor, "rows word"]:  # noqa: ARG002
        """The last words as vectors."""
        words: Tensor = self.words(tokens)
        return words

    def look(self, tokens: Int[Tensor, " rows"], state: UpDownState) -> Looked:
        """Take in the last words, and attend to regions."""
        image = state.of_rows(state.image)
        word = self.embedded(tokens, state).to(image.dtype)
        bottom = self.bottom.remember(torch.cat([state.top.hidden, image, word], dim=1), state.bottom)
        scores = self.compatibility(state.of_rows(state.keys), self.compatibility.query(bottom.hidden))
        weights = attention(scores.float(), state.of_rows(state.mask)).to(image.dtype)
        context = torch.bmm(weights[:, None], state.of_rows(state.regions)).squeeze(1)
        seen = [bottom.hidden, context] + [image] * self.config.image_in_top_layer
        return Looked(torch.cat(seen, dim=1), bottom)

    def hear(self, tokens: Int[Tensor, " rows"], state: UpDownState) -> Heard:
        """Take in the last words: look, then think of what was seen."""
        looked = self.look(tokens, state)
        top = self.top.remember(looked.seen, state.top)
        return Heard(top.hidden, replace(state, bottom=looked.bottom, top=top))


def attention(
    scores: Float[Tensor, "rows members"], mask: Bool[Tensor, "rows members"]
) -> Float[Tensor, "rows members"]:
    """Weights that add up to 1 over what is there; zeros where nothing is.

    >>> attention(torch.zeros(2, 2), torch.tensor([[True, True], [False, False]])).tolist()
    [[0.5, 0.5], [0.0, 0.0]]
    """
    is_empty = ~mask.any(dim=1, keepdim=True)
    masked = scores.masked_fill(~mask, MASKED).masked_fill(is_empty, 0.0)
    return torch.softmax(masked, dim=1).masked_fill(is_empty, 0.0)
