"""Up-Down (Anderson et al. 2018): a layer that decides where to look, and a layer that speaks of what it sees.

Ours is this captioner with sentinels and a gate. Here attention goes to all regions that are shown: those of the whole
image, or, to make it controllable, those of the control alone, all region sets together. It cannot tell their order.
"""

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.models.baselines.base import Heard, LateLayer, Layer, LSTMCaptioner, Memory, no_memory, repeat_rows
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.linear import DeferredGradLinear
from sct.models.modules import MASKED, Compatibility, exact


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What there is to see, for each example or for each row."""

    image: Float[Tensor, "shown features"]
    regions: Float[Tensor, "shown pool features"]
    keys: Float[Tensor, "shown pool attention"]
    """What attention compares with, of each region."""
    mask: Bool[Tensor, "shown pool"]

    def select(self, chosen: Int[Tensor, " chosen"]) -> "Shown":
        """That of the chosen ones."""
        return replace(
            self, **{field.name: getattr(self, field.name).index_select(0, chosen) for field in fields(self)}
        )


@dataclass(frozen=True, slots=True, eq=False)
class UpDownState:
    """Memory of both layers; what does not change over time is shared, not copied."""

    of_examples: Shown
    of_rows: Shown | None
    """The same for each row, kept as long as rows stay as they are; None until somebody looks."""
    example: Int[Tensor, " rows"]
    bottom: Memory
    top: Memory

    def select(self, rows: Int[Tensor, " chosen"]) -> "UpDownState":
        """The state of the chosen rows."""
        return replace(
            self,
            of_rows=None,
            example=self.example.index_select(0, rows),
            bottom=self.bottom.select(rows),
            top=self.top.select(rows),
        )

    def shown(self) -> Shown:
        """What each row sees."""
        return self.of_examples.select(self.example) if self.of_rows is None else self.of_rows


class Looked(NamedTuple):
    """What the upper layer is to think of."""

    seen: Float[Tensor, "rows seen"]
    bottom: Memory


class Walked(NamedTuple):
    """What each step leaves behind."""

    bottom_hidden: list[Float[Tensor, "rows hidden"]]
    contexts: list[Float[Tensor, "rows features"]]
    top: list[Memory]


class UpDown(LSTMCaptioner):
    """Says words, attending to all regions that it is shown."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__(config)
        hidden, features = config.hidden_size, config.feature_size
        self.bottom = Layer(hidden + features + config.word_size, hidden)
        self.top = Layer(hidden + features * (2 if config.image_in_top_layer else 1), hidden)
        self.compatibility = Compatibility(features, hidden, config.attention_size)
        self.reset_parameters()

    def init_state(self, batch: ControlBatch) -> UpDownState:
        """The state before the first word; a region that several sets name is shown as often."""
        num_examples = len(batch.image)
        shown = self.show(batch)
        memory = no_memory(num_examples, self.config.hidden_size, batch.image)
        return UpDownState(shown, shown, torch.arange(num_examples, device=batch.image.device), memory, memory)

    def show(self, inputs: ControlBatch) -> Shown:
        """What there is to see for each example."""
        pool = inputs.set_rows.flatten(1)
        regions = inputs.regions.index_select(0, pool.flatten()).view(*pool.shape, -1)
        return Shown(inputs.image, regions, self.compatibility.region_key(regions), inputs.set_mask.flatten(1))

    def embedded(self, tokens: Int[Tensor, " rows"], state: UpDownState) -> Float[Tensor, "rows word"]:  # noqa: ARG002
        """The last words as vectors."""
        words: Tensor = self.words(tokens)
        return words

    def all_embedded(
        self,
        words: Int[Tensor, "rows time"],
        state: UpDownState,  # noqa: ARG002
    ) -> Float[Tensor, "time rows word"]:
        """The words of all steps as vectors."""
        embedded: Tensor = self.words(words.T)
        return embedded

    def look(self, tokens: Int[Tensor, " rows"], state: UpDownState, shown: Shown) -> Looked:
        """Take in the last words, and attend to regions."""
        image = shown.image
        word = self.embedded(tokens, state).to(image.dtype)
        bottom = self.bottom.remember(torch.cat([state.top.hidden, image, word], dim=1), state.bottom)
        scores = self.compatibility(shown.keys, self.compatibility.query(bottom.hidden))
        weights = attention(scores.to(exact(scores.dtype)), shown.mask).to(image.dtype)
        context = torch.bmm(weights[:, None], shown.regions).squeeze(1)
        seen = [bottom.hidden, context] + [image] * self.config.image_in_top_layer
        return Looked(torch.cat(seen, dim=1), bottom)

    def hear(self, tokens: Int[Tensor, " rows"], state: UpDownState) -> Heard:
        """Take in the last words: look, then think of what was seen."""
        shown = state.shown()
        looked = self.look(tokens, state, shown)
        top = self.top.remember(looked.seen, state.top)
        return Heard(top.hidden, replace(state, of_rows=shown, bottom=looked.bottom, top=top))

    def hear_all(self, words: Int[Tensor, "rows time"], state: UpDownState) -> Float[Tensor, "time_and_rows hidden"]:
        """The vectors that words are told from."""
        return torch.cat([memory.hidden for memory in self.walk(words, state).top])

    def walk(self, words: Int[Tensor, "rows time"], state: UpDownState) -> Walked:
        """Take the steps of ``hear_all``; words and image are multiplied beforehand."""
        shown, dtype = state.of_examples, state.of_examples.image.dtype
        size, features, in_top = self.config.hidden_size, self.config.feature_size, self.config.image_in_top_layer
        num_examples, times = len(shown.image), len(words) // len(shown.image)
        lower = LateLayer(self.bottom, recurring=size, known=[features, self.config.word_size], dtype=dtype)
        upper = LateLayer(self.top, recurring=size + features, known=[features] * in_top, dtype=dtype)
        image = repeat_rows(shown.image, times)
        known_above = upper.of_known(image) if in_top else None
        query = DeferredGradLinear(self.compatibility.query.weight.to(dtype))
        vector = self.compatibility.score.weight[0].to(dtype)
        # Captions of one example lie together, so that it need not be copied for each of them.
        keys, mask = shown.keys[:, None], shown.mask[:, None]
        is_empty = ~mask.any(dim=2, keepdim=True)
        floor = torch.zeros_like(mask, dtype=exact(dtype)).masked_fill_(~mask & ~is_empty, MASKED)
        regions = shown.regions.masked_fill(is_empty, 0.0)  # where there is nothing to see, nothing is seen

        bottom, top = state.bottom.repeat(times), state.top.repeat(times)
        walked = Walked([], [], [])
        for known in lower.of_known(image, self.all_embedded(words, state).to(dtype)).unbind(0):
            bottom = lower.remember([top.hidden], known, bottom)
            asked = query(bottom.hidden).view(num_examples, times, 1, -1)
            scores = torch.tanh(keys + asked) @ vector
            weights = torch.softmax(scores + floor, dim=2).to(dtype)
            context = torch.bmm(weights, regions).flatten(0, 1)
            top = upper.remember([bottom.hidden, context], known_above, top)
            walked.bottom_hidden.append(bottom.hidden)
            walked.contexts.append(context)
            walked.top.append(top)
        return walked


def attention(
    scores: Float[Tensor, "*rows members"], mask: Bool[Tensor, "... members"]
) -> Float[Tensor, "*rows members"]:
    """Weights that add up to 1 over what is there; zeros where nothing is.

    >>> attention(torch.zeros(2, 2), torch.tensor([[True, True], [False, False]])).tolist()
    [[0.5, 0.5], [0.0, 0.0]]
    """
    is_empty = ~mask.any(dim=-1, keepdim=True)
    masked = scores.masked_fill(~mask, MASKED).masked_fill(is_empty, 0.0)
    return torch.softmax(masked, dim=-1).masked_fill(is_empty, 0.0)
