"""Words as the paper's evaluation sees them: Penn Treebank tokens, lower case, punctuation left out."""

import re
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

from sct.language import abbreviations
from sct.language.penn_treebank import tokens_of

# The official evaluation's list. It names brackets in capitals while the tokens are in lower case, so "-lrb-" stays.
_PUNCTUATION = frozenset(["''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"])
_PLAIN = re.compile(r"([A-Za-z]+)([,.]?)")
_TWO_WORDS = frozenset(["cannot", "gimme", "gonna", "gotta", "lemme", "wanna"])
_PIECE = re.compile(r"\S+")
# A few tokens reach over a space, or peek past it: "1 1/2", "(555) 123-4567", "no. 5", "in a T. The", "<a b>". The
# set of first characters comes before the alternatives so that the search can skip over letters.
_REACHES_OVER_SPACE = re.compile(r"[\d.<](?:(?<=\d)\)?\s\d|(?<=\.)\s+[\dA-Z]|(?<=<))")
_MOST_PIECES_KEPT = 1 << 17

Cut = TypeVar("Cut")


class Word(NamedTuple):
    """A word and where in the text it stands."""

    text: str
    start: int
    end: int


def _words_in(text: str) -> tuple[Word, ...]:
    plain = _PLAIN.fullmatch(text)
    if plain is not None:
        word, sign = plain[1].lower(), plain[2]
        has_own_stop = sign == "." and (len(word) == 1 or word in abbreviations.ALL)
        if word not in _TWO_WORDS and not has_own_stop:
            return (Word(word, 0, len(word)),)
    return tuple(Word(*token) for token in tokens_of(text) if token.text not in _PUNCTUATION)


class _Remembered(dict[str, tuple[Cut, ...]], Generic[Cut]):
    """What each piece between two spaces was cut into: captions repeat themselves, so few are cut twice."""

    def __init__(self, cut: Callable[[str], Iterable[Cut]]) -> None:
        super().__init__()
        self._cut = cut

    def __missing__(self, piece: str) -> tuple[Cut, ...]:
        if len(self) >= _MOST_PIECES_KEPT:
            self.clear()
        self[piece] = words = tuple(self._cut(piece))
        return words


_words_of_piece = _Remembered(_words_in)
_texts_of_piece = _Remembered(lambda piece: (word.text for word in _words_in(piece)))


def tokenise(text: str) -> list[Word]:
    """Cut a caption into words.

    A word that the evaluation rewrites keeps the place of what it was made from: "(" is the word "-lrb-".

    >>> [word.text for word in tokenise("A boy slides into a pool .")]
    ['a', 'boy', 'slides', 'into', 'a', 'pool']
    >>> tokenise("She can't.")
    [Word(text='she', start=0, end=3), Word(text='ca', start=4, end=6), Word(text="n't", start=6, end=9)]
    """
    if _REACHES_OVER_SPACE.search(text):
        return list(_words_in(text))
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
    if _REACHES_OVER_SPACE.search(text):
        return [word.text for word in _words_in(text)]
    return list(chain.from_iterable(map(_texts_of_piece.__getitem__, text.split())))
