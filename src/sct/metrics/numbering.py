"""Words as numbers, given out in the order in which they are first seen."""

from collections.abc import Iterable, Sequence

import numpy as np

from sct.language.tokens import words_of_pieces
from sct.metrics.ragged import Ragged


class Numbering(dict[str, int]):
    """The number of each word; a word asked for the first time gets the next one."""

    def __missing__(self, word: str) -> int:
        """Give out a number."""
        self[word] = number = len(self)
        return number

    def words(self) -> tuple[str, ...]:
        """The word of each number."""
        return tuple(self)

    def captions(self, captions: Iterable[Sequence[str]]) -> Ragged:
        """Number captions that are cut into words already."""
        values: list[int] = []
        ends = [0]
        for words in captions:
            values += map(self.__getitem__, words)
            ends.append(len(values))
        return Ragged(np.array(values, dtype=np.int32), np.array(ends))

    def texts(self, texts: Iterable[str]) -> Ragged:
        """Cut captions into words as the official tokeniser does, and number these.

        What stands between two spaces is cut alike wherever it stands, so it is numbered, and only the different ones
        are cut; then numpy puts the words in the place of the pieces.
        """
        pieces = Numbering()
        pieced = pieces.captions(map(str.split, texts))
        cut = self.captions(words_of_pieces(pieces))
        ends = np.concatenate([[0], np.cumsum(cut.lengths()[pieced.values])])
        # The words of each piece lie together in `cut`: count up from where they begin.
        places = np.arange(ends[-1])
        places += np.repeat(cut.offsets[pieced.values] - ends[:-1], np.diff(ends))
        return Ragged(cut.values[places], ends[pieced.offsets])
