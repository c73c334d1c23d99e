"""What sees: the contract between pictures and everything that needs features of their regions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from sct.regions.pictures import Picture
from sct.regions.records import Box, Region


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """What one look at a picture gave; boxes are in the pixels of the picture as it came."""

    descriptor: Float[np.ndarray, " features"]
    """Of the picture as a whole."""
    regions: tuple[Region, ...]
    """The boxes that were asked for, in their order, each with a feature and a name."""
    proposals: tuple[Region, ...]
    """Regions worth talking about, the best first, each with a feature, a name and a score."""


@runtime_checkable
class Vision(Protocol):
    """Sees regions in pictures."""

    feature_size: int

    def look(self, pictures: Sequence[Picture], boxes: Sequence[Sequence[Box]]) -> list[Sight]:
        """Look once at each picture; ``boxes`` holds those that a user asks for, for each picture."""
        ...
