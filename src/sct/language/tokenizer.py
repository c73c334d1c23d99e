"""Penn Treebank tokenizer for captions: lower case, no punctuation, as in the official caption evaluation.

A regular expression that reproduces the Java tokenizer of pycocoevalcap 1.2 on the captions of COCO and Flickr8k;
``benchmarks/speed/tokenizer.py`` finds about one differing caption in ten thousand. The list of abbreviations holds
those of these captions and the most common titles and months, each checked against the Java tool.

Known differences, all rare in captions: tokens that contain a space ("1 1/2", "no. 5"), emoticons, URLs, words that
begin with "#" or "@", non-ASCII symbols. Whether "a letter K." keeps its full stop depends in Java on the text that
follows, even on the next caption; here it is always kept.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from string import ascii_lowercase
from typing import Generic, NamedTuple, TypeVar


class Token(NamedTuple):
    """A word and its character span in the text."""

    text: str
    start: int
    end: int


_ABBREVIATIONS = (
    "apr|aug|ave|bldg|blvd|bros|capt|co|corp|ct|dec|dept|dr|etc|feb|ft|gen|gov|inc|jan|jr|ky|lt|ltd|mr|mrs|ms|mt|nov|"
    "oct|penn|ph|prof|rd|rev|sen|sept|sgt|sr|st|vs"
)
# The first matching alternative wins. Unmatched characters are dropped: single punctuation marks, non-ASCII symbols.
_TOKEN = re.compile(
    r"""
      \d*(?:[.,:]\d+)+                                    # 1,000  3.5  10:30, without the "pm" of "10:30pm"
    | can(?=not\b) | (?:gon|wan)(?=na\b) | got(?=ta\b) | (?:gim|lem)(?=me\b)
    | [a-z]+(?=n't\b) | n't\b                             # do n't
    | '(?:s|m|d|ll|re|ve)\b                               # the man 's, they 're
    | 'n\b'? | dunkin'                                    # slip 'n' slide
    | (?:[a-z](?:[.][a-z])*|ABBREVIATIONS)[.](?!\w)       # T.V.  Elm St.
    | (?-i:[A-Z]+&[A-Z]+)                                 # AT&T
    | (?:[dlo]'(?=[a-z]{2}))?                             # o'clock
      [^\W_]+(?:[-/._][^\W_]+)*                           # t-shirt  his/her
      (?:[.](?=[,;:]))?                                   # a full stop before a comma belongs to the word
    | [!?]{2,} | [#$%&()*+/<=>@[\\\]^_{|}~]
    """.replace("ABBREVIATIONS", _ABBREVIATIONS).replace("'", "['\u2019]"),
    re.VERBOSE | re.IGNORECASE,
)
# Alphabetic pieces that a rule above may split or keep a full stop with; any other one is a single token.
_NEEDS_RULES = frozenset(_ABBREVIATIONS.split("|")).union(
    ascii_lowercase, {"cannot", "gonna", "wanna", "gotta", "gimme", "lemme"}
)
_BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}


def ptb_tokens(piece: str) -> Iterator[Token]:
    """Tokenize a whitespace-free piece of text.

    >>> [token.text for token in ptb_tokens("(don't!)")]
    ['-lrb-', 'do', "n't", '-rrb-']
    """
    for match in _TOKEN.finditer(piece):
        text = match[0].lower().replace("\u2019", "'")
        yield Token(_BRACKETS.get(text, text), *match.span())


def ptb_texts(piece: str) -> tuple[str, ...]:
    """Return the texts of ``ptb_tokens``, with a fast path for letters followed by at most one punctuation mark.

    >>> ptb_texts("street."), ptb_texts("st.")
    (('street',), ('st.',))
    """
    letters = piece[:-1] if piece.endswith((".", ",")) else piece
    if letters.isascii() and letters.isalpha():
        word = letters.lower()
        if word not in _NEEDS_RULES:
            return (word,)
    return tuple([token.text for token in ptb_tokens(piece)])


_PIECE = re.compile(r"\S+")
_MAX_MEMO_SIZE = 1 << 17

Result = TypeVar("Result")


class _Memo(dict[str, tuple[Result, ...]], Generic[Result]):
    """Memoized tokenization of whitespace-free pieces; captions repeat most of theirs."""

    def __init__(self, function: Callable[[str], tuple[Result, ...]]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, piece: str) -> tuple[Result, ...]:
        if len(self) >= _MAX_MEMO_SIZE:
            self.clear()
        self[piece] = result = self._function(piece)
        return result


_tokens_of_piece = _Memo(lambda piece: tuple(ptb_tokens(piece)))
_texts_of_piece = _Memo(ptb_texts)


def tokenize(text: str) -> list[str]:
    """Tokenize a caption.

    >>> tokenize("A dog's ball, and a cat.")
    ['a', 'dog', "'s", 'ball', 'and', 'a', 'cat']
    """
    return list(chain.from_iterable(map(_texts_of_piece.__getitem__, text.split())))


def tokenize_with_spans(text: str) -> list[Token]:
    """Tokenize a caption and keep the character span of each token in it.

    A span covers the original characters, also where the token's text differs: "(" becomes "-lrb-".

    >>> tokenize_with_spans("She can't.")
    [Token(text='she', start=0, end=3), Token(text='ca', start=4, end=6), Token(text="n't", start=6, end=9)]
    """
    return [
        Token(token, piece.start() + start, piece.start() + end)
        for piece in _PIECE.finditer(text)
        for token, start, end in _tokens_of_piece[piece[0]]
    ]


def tokenize_pieces(pieces: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Tokenize each piece of text that was split at whitespace.

    >>> list(tokenize_pieces(["dog's", "ball,"]))
    [('dog', "'s"), ('ball',)]
    """
    return map(_texts_of_piece.__getitem__, pieces)
