"""What a search sees of a captioner: one step at a time, and no images."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

STAY, SHIFT = 0, 1
"""The two actions of the gate: keep the pointer, or move it on to the next region set after this word."""


@runtime_checkable
class State(Protocol):
    """What a captioner remembers of each row between steps; a search only ever reorders it."""

    @property
    def example(self) -> Int[Tensor, " rows"]:
        """Which example of the batch each row speaks for; a search begins with one row for each, in order."""
        ...

    def select(self, rows: Int[Tensor, " chosen"]) -> "State":
        """The state of the chosen rows, in their order; a row may be chosen several times, or never."""
        ...


class Step(NamedTuple):
    """What a captioner thinks comes next, per row."""

    word_log_probs: Float[Tensor, "rows words"]
    shift_log_probs: Float[Tensor, "rows 2"] | None
    """Of STAY and SHIFT, decided together with the word; None from a captioner that has no gate."""
    state: Any
    """A ``State``; captioners name their own kind."""


@runtime_checkable
class StepModel(Protocol):
    """A captioner as a search sees it."""

    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: Any) -> Step:
        """Take the previous word and the previous shift of each row, and say what comes next.

        A row's pointer moves by its ``shifts`` before the next word is thought of, and never past its last region set,
        or past an empty one after it for who sees where a control is over.
        A row that has ended goes on being asked, with padding for its word; what comes of it is not looked at.
        """
        ...
