"""Pictures as people have them, decoded with care."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A picture, upright and in colour."""

    pixels: UInt8[np.ndarray, "rows columns 3"]
    """Red, green, blue; a huge picture is kept smaller than it came."""
    width: int
    """Of the picture as it came, upright; boxes count these pixels."""
    height: int
    name: str
    """What to call it in messages."""
