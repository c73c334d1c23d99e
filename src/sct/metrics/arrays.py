"""Lists of different lengths in two flat arrays, so that numpy can work on all of them at once.

Words as numbers, given out in the order in which they are first seen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Integer

from sct.language.tokenizer import words_of_pieces


@dataclass(frozen=True, slots=True, eq=False)
class RaggedArray:
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

    def split(self, row: int) -> "tuple[RaggedArray, RaggedArray]":
        """The lists before a row, and those from it on."""
        place = self.offsets[row]
        before = RaggedArray(self.values[:place], self.offsets[: row + 1])
        return before, RaggedArray(self.values[place:], self.offsets[row:] - place)


class WordIndex(dict[str, int]):
    """The number of each word; a word asked for the first time gets the next one."""

    def __missing__(self, word: str) -> int:
        """Give out a number."""
        self[word] = number = len(self)
        return number

    def words(self) -> tuple[str, ...]:
        """The word of each number."""
        return tuple(self)

    def captions(self, captions: Iterable[Sequence[str]]) -> RaggedArray:
        """Number captions that are cut into words already."""
        values: list[int] = []
        ends = [0]
        for words in captions:
            values += map(self.__getitem__, words)
            ends.append(len(values))
        return RaggedArray(np.array(values, dtype=np.int32), np.array(ends))

    def texts(self, texts: Iterable[str]) -> RaggedArray:
        """Cut captions into words as the official tokeniser does, and number these.

        What stands between two spaces is cut alike wherever it stands, so it is numbered, and only the different ones
        are cut; then numpy puts the words in the place of the pieces.
        """
        pieces = WordIndex()
        pieced = pieces.captions(map(str.split, texts))
        cut = self.captions(words_of_pieces(pieces))
        ends = np.concatenate([[0], np.cumsum(cut.lengths()[pieced.values])])
        # The words of each piece lie together in `cut`: count up from where they begin.
        places = np.arange(ends[-1])
        places += np.repeat(cut.offsets[pieced.values] - ends[:-1], np.diff(ends))
        return RaggedArray(cut.values[places], ends[pieced.offsets])
