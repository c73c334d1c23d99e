"""Words as the paper's evaluation sees them: Penn Treebank tokens, lower case, punctuation left out."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

from sct.language.penn_treebank import Word, texts_in, words_in

__all__ = ["Word", "tokenise", "words_of", "words_of_pieces"]

_PIECE = re.compile(r"\S+")
_MOST_PIECES_KEPT = 1 << 17

Cut = TypeVar("Cut")


class _Remembered(dict[str, tuple[Cut, ...]], Generic[Cut]):
    """What each piece between two spaces was cut into: captions repeat themselves, so few are cut twice."""

    def __init__(self, cut: Callable[[str], tuple[Cut, ...]]) -> None:
        super().__init__()
        self._cut = cut

    def __missing__(self, piece: str) -> tuple[Cut, ...]:
        if len(self) >= _MOST_PIECES_KEPT:
            self.clear()
        self[piece] = words = self._cut(piece)
        return words


_words_of_piece = _Remembered(lambda piece: tuple(words_in(piece)))
_texts_of_piece = _Remembered(texts_in)


def tokenise(text: str) -> list[Word]:
    """Cut a caption into words.

    A word that the evaluation rewrites keeps the place of what it was made from: "(" is the word "-lrb-".

    >>> [word.text for word in tokenise("A boy slides into a pool .")]
    ['a', 'boy', 'slides', 'into', 'a', 'pool']
    >>> tokenise("She can't.")
    [Word(text='she', start=0, end=3), Word(text='ca', start=4, end=6), Word(text="n't", start=6, end=9)]
    """
    return [
        Word(word, piece.start() + start, piece.start() + end)
        for piece in _PIECE.finditer(text)
        for word, start, end in _words_of_piece[piece[0]]
    ]


def words_of(text: str) -> list[str]:
    """Only the words of a caption, without their places.

    >>> words_of("A dog's ball, and a cat.")
    ['a', 'dog', "'s", 'ball', 'and', 'a', 'cat']
    """
    return list(chain.from_iterable(map(_texts_of_piece.__getitem__, text.split())))


def words_of_pieces(pieces: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Only the words of each piece of captions that were split at spaces.

    >>> list(words_of_pieces(["dog's", "ball,"]))
    [('dog', "'s"), ('ball',)]
    """
    return map(_texts_of_piece.__getitem__, pieces)
