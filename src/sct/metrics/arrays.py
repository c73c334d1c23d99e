"""Ragged arrays of word ids: captions of different lengths in flat numpy arrays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Integer

from sct.language.tokenizer import split_pieces, tokenize_pieces


@dataclass(frozen=True, slots=True, eq=False)
class RaggedArray:
    """Concatenated lists of different lengths: list ``i`` is ``values[offsets[i]:offsets[i + 1]]``."""

    values: Integer[np.ndarray, " values"]
    offsets: Int[np.ndarray, " lists_and_one"]

    def __len__(self) -> int:
        """Number of lists."""
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Integer[np.ndarray, " list"]:
        """List ``row``."""
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def lengths(self) -> Int[np.ndarray, " lists"]:
        """Length of each list."""
        return np.diff(self.offsets)

    def split(self, row: int) -> "tuple[RaggedArray, RaggedArray]":
        """Split into the lists before ``row`` and the lists from ``row`` on."""
        middle = self.offsets[row]
        before = RaggedArray(self.values[:middle], self.offsets[: row + 1])
        return before, RaggedArray(self.values[middle:], self.offsets[row:] - middle)

    def take(self, rows: Int[np.ndarray, " rows"]) -> "RaggedArray":
        """Select lists, in the order of ``rows``."""
        lengths = self.lengths()[rows]
        return RaggedArray(self.values[concat_ranges(self.offsets[:-1][rows], lengths)], lengths_to_offsets(lengths))


class WordIndex(dict[str, int]):
    """Maps words to ids; a new word gets the next id."""

    def __missing__(self, word: str) -> int:
        """Assign the next id."""
        self[word] = word_id = len(self)
        return word_id

    def words(self) -> tuple[str, ...]:
        """Words in order of their ids."""
        return tuple(self)

    def index_words(self, captions: Iterable[Sequence[str]]) -> RaggedArray:
        """Word ids of tokenised captions."""
        values: list[int] = []
        ends = [0]
        for words in captions:
            values += map(self.__getitem__, words)
            ends.append(len(values))
        return RaggedArray(np.array(values, dtype=np.int32), np.array(ends))

    def index_texts(self, texts: Iterable[str]) -> RaggedArray:
        """Word ids of captions, tokenised as the official PTB tokenizer does.

        The tokenizer treats each piece of a text independently, so only distinct pieces are tokenised.
        """
        pieces = WordIndex()
        piece_ids = pieces.index_words(map(split_pieces, texts))
        tokens = self.index_words(tokenize_pieces(pieces))
        ends = np.concatenate([[0], np.cumsum(tokens.lengths()[piece_ids.values])])
        # ``concat_ranges`` in place: ``ends`` is needed below as well.
        positions = np.arange(ends[-1])
        positions += np.repeat(tokens.offsets[piece_ids.values] - ends[:-1], np.diff(ends))
        return RaggedArray(tokens.values[positions], ends[piece_ids.offsets])


def lengths_to_offsets(lengths: Int[np.ndarray, " lists"]) -> Int[np.ndarray, " lists_and_one"]:
    """Offsets of concatenated lists.

    >>> lengths_to_offsets(np.array([2, 3])).tolist()
    [0, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(lengths)])


def concat_ranges(
    starts: Int[np.ndarray, " ranges"], lengths: Int[np.ndarray, " ranges"]
) -> Int[np.ndarray, " values"]:
    """Concatenate ``range(start, start + length)`` for each pair.

    >>> concat_ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    offsets = lengths_to_offsets(lengths)
    values: np.ndarray = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    return values
