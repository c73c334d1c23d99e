"""Interface between search and model: one step at a time."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

STAY, SHIFT = 0, 1
"""Actions of the chunk-shifting gate: keep the pointer, or move it to the next region set after this word."""


@runtime_checkable
class State(Protocol):
    """Recurrent state of a batch of hypotheses, one row each; a search only reorders rows."""

    @property
    def example(self) -> Int[Tensor, " rows"]:
        """Example that each row belongs to; an initial state has one row per example, in order."""
        ...

    def select(self, rows: Int[Tensor, " chosen"]) -> "State":
        """State of the chosen rows, in their order; rows may be repeated or left out."""
        ...


class Step(NamedTuple):
    """Predictions of one step, per row."""

    word_log_probs: Float[Tensor, "rows words"]
    shift_log_probs: Float[Tensor, "rows 2"] | Float[Tensor, "rows words 2"] | None
    """Of STAY and SHIFT, decided together with the word, or after each possible word if the gate sees it; None for a
    model without a gate."""
    state: Any
    """A ``State``; models have their own classes."""


@runtime_checkable
class StepModel(Protocol):
    """A caption model as a search sees it."""

    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: Any) -> Step:
        """Predict the next word and shift from the previous ones.

        The pointer of a row moves by its ``shifts`` before the prediction, and stops at the last region set, or at the
        end slot of a model that has one. Finished rows are stepped too, with padding; their predictions are ignored.
        """
        ...
