"""Systems that can say the same thing in many ways: each way is a manner, and manner 0 is the likeliest."""

from abc import abstractmethod
from typing import Any

from jaxtyping import Int
from torch import Tensor

from sct.baselines.word_system import WordSystem
from sct.model.inputs import ControlInputs


class ManneredSystem(WordSystem):
    """A captioner that decides on a manner before its first word."""

    def begin(self, inputs: ControlInputs) -> Any:
        """The state before the first word, in the likeliest manner."""
        return self.begin_in(inputs, None)

    @abstractmethod
    def begin_in(self, inputs: ControlInputs, manners: Int[Tensor, " examples"] | None) -> Any:
        """The state before the first word, one row for each example, each in a manner of its own."""
