"""Controllable LSTM (section 4.3): no attention; a second LSTM reads the control, region after region.

Its last state stands beside the image descriptor wherever a language model would see the image.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from sct.baselines.word_system import Heard, Layer, Memory, WordSystem, no_memory
from sct.model.config import CaptionerConfig
from sct.model.inputs import ControlInputs
from sct.model.late_products import LateProduct
from sct.model.parts import lstm_step


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


class ControllableLstm(WordSystem):
    """The two layers of Up-Down without its attention, with a vector for the whole control."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__(config)
        hidden = config.hidden_size
        told = config.feature_size + hidden
        self.control = Layer(config.feature_size, hidden)
        self.bottom = Layer(hidden + told + config.word_size, hidden)
        self.top = Layer(hidden + told * config.image_in_top_layer, hidden)
        self.reset_parameters()

    def begin(self, inputs: ControlInputs) -> ControllableLstmState:
        """The state before the first word: the control has been read."""
        memory = no_memory(len(inputs.image), self.config.hidden_size, inputs.image)
        return ControllableLstmState(
            torch.cat([inputs.image, self.read_control(inputs)], dim=1),
            torch.arange(len(inputs.image), device=inputs.image.device),
            memory,
            memory,
        )

    def read_control(self, inputs: ControlInputs) -> Float[Tensor, "examples hidden"]:
        """The last state after all regions of all sets in their order; zeros where there are none.

        Every control takes as many steps as the longest could, so that nothing waits for its length; what comes after
        its own last region is not looked at.
        """
        rows, mask = without_gaps(inputs.set_rows.flatten(1), inputs.set_mask.flatten(1))
        dtype = inputs.image.dtype
        given = functional.linear(
            inputs.regions.index_select(0, rows.flatten()), self.control.weight_ih, self.control.bias_ih
        ).view(*rows.shape, -1)
        recurrent = LateProduct(self.control.weight_hh.to(dtype), self.control.bias_hh.to(dtype))
        hidden, cell = no_memory(len(rows), self.config.hidden_size, inputs.image)
        for gates, is_region in zip(given.unbind(1), mask.unbind(1), strict=True):
            new_hidden, new_cell = lstm_step(gates, recurrent(hidden), cell)
            hidden = torch.where(is_region[:, None], new_hidden, hidden)
            cell = torch.where(is_region[:, None], new_cell, cell)
        return hidden

    def hear(self, tokens: Int[Tensor, " rows"], state: ControllableLstmState) -> Heard:
        """Take in the last words."""
        told = state.told.index_select(0, state.example)
        word = self.words(tokens).to(told.dtype)
        bottom = self.bottom.remember(torch.cat([state.top.hidden, told, word], dim=1), state.bottom)
        seen = [bottom.hidden] + [told] * self.config.image_in_top_layer
        top = self.top.remember(torch.cat(seen, dim=1), state.top)
        return Heard(top.hidden, replace(state, bottom=bottom, top=top))


def without_gaps(
    rows: Int[Tensor, "examples places"], mask: Bool[Tensor, "examples places"]
) -> tuple[Int[Tensor, "examples places"], Bool[Tensor, "examples places"]]:
    """What is real first, in its order; what is not after it.

    >>> rows, mask = without_gaps(torch.tensor([[4, 0, 7, 5]]), torch.tensor([[True, False, True, True]]))
    >>> rows.tolist(), mask.tolist()
    ([[4, 7, 5, 0]], [[True, True, True, False]])
    """
    order = (~mask).long().sort(dim=1, stable=True).indices
    return rows.gather(1, order), mask.gather(1, order)
