"""Sizes and temper of the sorting network."""

from dataclasses import dataclass
from math import isfinite
from typing import Literal

from sct.errors import InputError

Mode = Literal["paper", "reference"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SorterConfig:
    """Everything that shapes the network and its Sinkhorn operator."""

    max_sets: int = 10
    """Most region sets that a control may have: the network has one output for each place in the order."""
    word_size: int = 300
    """Of a class's word vector."""
    visual_size: int | None = 2048
    """Of a region's feature vector; None for a network that sees class and geometry alone."""
    mode: Mode = "paper"
    """The appendix as printed, or what the authors' released code computes."""
    iterations: int = 20
    temperature: float = 0.1
    """By which scores, which tanh keeps from -1 to 1, are divided; the lower, the closer to a permutation."""

    def __post_init__(self) -> None:
        """Refuse sizes that are no sizes."""
        for name in ("max_sets", "word_size", "visual_size", "iterations"):
            value = getattr(self, name)
            if name == "visual_size" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"{name} is {value!r}: wanted a whole number above 0")
        if not isinstance(self.temperature, float | int) or not (isfinite(self.temperature) and self.temperature > 0):
            raise InputError(f"temperature is {self.temperature!r}: wanted a number above 0, such as 0.1")
        if self.mode not in ("paper", "reference"):
            raise InputError(f"mode {self.mode!r}: wanted paper or reference")
