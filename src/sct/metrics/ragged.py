"""Lists of different lengths in two flat arrays, so that numpy can work on all of them at once."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Integer


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Lists of different lengths, end to end: list ``i`` is ``values[offsets[i]:offsets[i + 1]]``."""

    values: Integer[np.ndarray, " values"]
    offsets: Int[np.ndarray, " lists_and_one"]

    def __len__(self) -> int:
        """Count the lists."""
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Integer[np.ndarray, " list"]:
        """One of the lists."""
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def lengths(self) -> Int[np.ndarray, " lists"]:
        """How long each list is."""
        return np.diff(self.offsets)

    def split(self, row: int) -> "tuple[Ragged, Ragged]":
        """The lists before a row, and those from it on."""
        place = self.offsets[row]
        before = Ragged(self.values[:place], self.offsets[: row + 1])
        return before, Ragged(self.values[place:], self.offsets[row:] - place)
