"""Controllable LSTM (section 4.3): no attention; a second LSTM reads the control, region after region.

Its last state stands beside the image descriptor wherever a language model would see the image.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.models.baselines.base import Heard, LateLayer, Layer, LSTMCaptioner, Memory, no_memory, repeat_rows
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.modules import MASKED


@dataclass(frozen=True, slots=True, eq=False)
class ControllableLstmState:
    """Memory of both layers, and what they are told of image and control."""

    told: Float[Tensor, "examples told"]
    example: Int[Tensor, " rows"]
    bottom: Memory
    top: Memory

    def select(self, rows: Int[Tensor, " chosen"]) -> "ControllableLstmState":
        """The state of the chosen rows."""
        return replace(
            self,
            example=self.example.index_select(0, rows),
            bottom=self.bottom.select(rows),
            top=self.top.select(rows),
        )


class ControllableLstm(LSTMCaptioner):
    """The two layers of Up-Down without its attention, with a vector for the whole control."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__(config)
        hidden = config.hidden_size
        told = config.feature_size + hidden
        self.control = Layer(config.feature_size, hidden)
        self.bottom = Layer(hidden + told + config.word_size, hidden)
        self.top = Layer(hidden + told * config.image_in_top_layer, hidden)
        self.reset_parameters()

    def init_state(self, batch: ControlBatch) -> ControllableLstmState:
        """The state before the first word: the control has been read."""
        memory = no_memory(len(batch.image), self.config.hidden_size, batch.image)
        return ControllableLstmState(
            torch.cat([batch.image, self.read_control(batch)], dim=1),
            torch.arange(len(batch.image), device=batch.image.device),
            memory,
            memory,
        )

    def read_control(self, inputs: ControlBatch) -> Float[Tensor, "examples hidden"]:
        """The last state after all regions of all sets in their order; zeros where there are none.

        Every control takes as many steps as the longest could, so that nothing waits for its length. What is no region
        comes first and shuts all gates: memory stays empty until the first region, and there is nothing to pick out of
        the steps afterwards.
        """
        rows, mask = gaps_first(inputs.set_rows.flatten(1), inputs.set_mask.flatten(1))
        layer = LateLayer(self.control, recurring=0, known=[self.config.feature_size], dtype=inputs.image.dtype)
        regions = inputs.regions.index_select(0, rows.T.flatten())
        known = layer.of_known(regions.view(*rows.T.shape, -1)).masked_fill_(~mask.T[..., None], MASKED)
        memory = no_memory(len(rows), self.config.hidden_size, inputs.image)
        for gates in known.unbind(0):
            memory = layer.remember([], gates, memory)
        return memory.hidden

    def hear(self, tokens: Int[Tensor, " rows"], state: ControllableLstmState) -> Heard:
        """Take in the last words."""
        told = state.told.index_select(0, state.example)
        word = self.words(tokens).to(told.dtype)
        bottom = self.bottom.remember(torch.cat([state.top.hidden, told, word], dim=1), state.bottom)
        seen = [bottom.hidden] + [told] * self.config.image_in_top_layer
        top = self.top.remember(torch.cat(seen, dim=1), state.top)
        return Heard(top.hidden, replace(state, bottom=bottom, top=top))

    def hear_all(
        self, words: Int[Tensor, "rows time"], state: ControllableLstmState
    ) -> Float[Tensor, "time_and_rows hidden"]:
        """The vectors that words are told from; words, image and control are multiplied beforehand."""
        times, size, dtype = len(words) // len(state.example), self.config.hidden_size, state.told.dtype
        told = repeat_rows(state.told, times)
        output_size, in_top = told.shape[1], self.config.image_in_top_layer
        lower = LateLayer(self.bottom, recurring=size, known=[output_size, self.config.word_size], dtype=dtype)
        upper = LateLayer(self.top, recurring=size, known=[output_size] * in_top, dtype=dtype)
        known_above = upper.of_known(told) if in_top else None
        bottom, top, all_hidden = state.bottom.repeat(times), state.top.repeat(times), []
        for known in lower.of_known(told, self.words(words.T).to(dtype)).unbind(0):
            bottom = lower.remember([top.hidden], known, bottom)
            top = upper.remember([bottom.hidden], known_above, top)
            all_hidden.append(top.hidden)
        return torch.cat(all_hidden)


def gaps_first(
    rows: Int[Tensor, "examples places"], mask: Bool[Tensor, "examples places"]
) -> tuple[Int[Tensor, "examples places"], Bool[Tensor, "examples places"]]:
    """What is real last, in its order; what is not before it.

    >>> rows, mask = gaps_first(torch.tensor([[4, 0, 7, 5]]), torch.tensor([[True, False, True, True]]))
    >>> rows.tolist(), mask.tolist()
    ([[0, 4, 7, 5]], [[False, True, True, True]])
    """
    order = mask.long().sort(dim=1, stable=True).indices
    return rows.gather(1, order), mask.gather(1, order)
