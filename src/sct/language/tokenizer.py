"""The words that the official evaluation finds in a piece of a caption, as rules for what captions hold.

The evaluation runs a Java tool over the captions (Penn Treebank tokens, lower case, of pycocoevalcap 1.2) and drops
punctuation. The rules below were written for the captions of COCO and Flickr8k, each because of what that tool prints
for them, and were kept few: they may differ on one caption in ten thousand (``benchmarks/tokeniser.py`` counts). The
short forms are those that captions hold and the commonest titles and months; the tool was asked about each. So it was
about "gotta", "gimme" and "lemme", which those captions do not need.

What captions hardly hold comes out otherwise there: tokens over a space ("1 1/2", "no. 5"), faces, addresses, words
that open with "#" or "@", signs outside ASCII. Whether "a letter K." keeps its full stop hangs there on what follows,
at the end of a caption even on the next caption; here it always does.

Words as the paper's evaluation sees them: Penn Treebank tokens, lower case, punctuation left out.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from string import ascii_lowercase
from typing import Generic, NamedTuple, TypeVar


class Word(NamedTuple):
    """A word and where in the text it stands."""

    text: str
    start: int
    end: int


_SHORT_FORMS = (
    "apr|aug|ave|bldg|blvd|bros|capt|co|corp|ct|dec|dept|dr|etc|feb|ft|gen|gov|inc|jan|jr|ky|lt|ltd|mr|mrs|ms|mt|nov|"
    "oct|penn|ph|prof|rd|rev|sen|sept|sgt|sr|st|vs"
)
# The first rule that fits wins. What no rule fits is left out: single punctuation marks and signs outside ASCII.
_WORD = re.compile(
    r"""
      \d*(?:[.,:]\d+)+                                    # 1,000  3.5  10:30, and "pm" of "10:30pm" is the next word
    | can(?=not\b) | (?:gon|wan)(?=na\b) | got(?=ta\b) | (?:gim|lem)(?=me\b)
    | [a-z]+(?=n't\b) | n't\b                             # do n't
    | '(?:s|m|d|ll|re|ve)\b                               # the man 's, they 're
    | 'n\b'? | dunkin'                                    # slip 'n' slide
    | (?:[a-z](?:[.][a-z])*|SHORT_FORMS)[.](?!\w)         # T.V.  Elm St.
    | (?-i:[A-Z]+&[A-Z]+)                                 # AT&T
    | (?:[dlo]'(?=[a-z]{2}))?                             # o'clock
      [^\W_]+(?:[-/._][^\W_]+)*                           # t-shirt  his/her
      (?:[.](?=[,;:]))?                                   # a full stop before a comma stays with the word
    | [!?]{2,} | [#$%&()*+/<=>@[\\\]^_{|}~]
    """.replace("SHORT_FORMS", _SHORT_FORMS).replace("'", "['\u2019]"),
    re.VERBOSE | re.IGNORECASE,
)
# Letters that a rule above may cut, or keep a full stop with. All others are one word, with or without a mark after.
_BY_RULE = frozenset(_SHORT_FORMS.split("|")).union(
    ascii_lowercase, {"cannot", "gonna", "wanna", "gotta", "gimme", "lemme"}
)
_REWRITTEN = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}


def ptb_tokens(piece: str) -> Iterator[Word]:
    """Cut what stands between two spaces into words.

    >>> [word.text for word in ptb_tokens("(don't!)")]
    ['-lrb-', 'do', "n't", '-rrb-']
    """
    for match in _WORD.finditer(piece):
        text = match[0].lower().replace("\u2019", "'")
        yield Word(_REWRITTEN.get(text, text), *match.span())


def ptb_texts(piece: str) -> tuple[str, ...]:
    """Only the words of ``ptb_tokens``: most pieces are letters and at most one mark, and need no rule.

    >>> ptb_texts("street."), ptb_texts("st.")
    (('street',), ('st.',))
    """
    letters = piece[:-1] if piece.endswith((".", ",")) else piece
    if letters.isascii() and letters.isalpha():
        word = letters.lower()
        if word not in _BY_RULE:
            return (word,)
    return tuple([word.text for word in ptb_tokens(piece)])


__all__ = ["Word", "tokenize_with_spans", "tokenize", "tokenize_pieces"]

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


_words_of_piece = _Remembered(lambda piece: tuple(ptb_tokens(piece)))
_texts_of_piece = _Remembered(ptb_texts)


def tokenize_with_spans(text: str) -> list[Word]:
    """Cut a caption into words.

    A word that the evaluation rewrites keeps the place of what it was made from: "(" is the word "-lrb-".

    >>> [word.text for word in tokenize_with_spans("A boy slides into a pool .")]
    ['a', 'boy', 'slides', 'into', 'a', 'pool']
    >>> tokenize_with_spans("She can't.")
    [Word(text='she', start=0, end=3), Word(text='ca', start=4, end=6), Word(text="n't", start=6, end=9)]
    """
    return [
        Word(word, piece.start() + start, piece.start() + end)
        for piece in _PIECE.finditer(text)
        for word, start, end in _words_of_piece[piece[0]]
    ]


def tokenize(text: str) -> list[str]:
    """Only the words of a caption, without their places.

    >>> tokenize("A dog's ball, and a cat.")
    ['a', 'dog', "'s", 'ball', 'and', 'a', 'cat']
    """
    return list(chain.from_iterable(map(_texts_of_piece.__getitem__, text.split())))


def tokenize_pieces(pieces: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Only the words of each piece of captions that were split at spaces.

    >>> list(tokenize_pieces(["dog's", "ball,"]))
    [('dog', "'s"), ('ball',)]
    """
    return map(_texts_of_piece.__getitem__, pieces)
