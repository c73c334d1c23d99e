"""Words as the paper's evaluation sees them: Penn Treebank tokens, lower case, punctuation left out."""

import re
from typing import NamedTuple

_WORD = re.compile(r"\w+(?:[-'.]\w+)*")


class Word(NamedTuple):
    """A word and where in the text it stands."""

    text: str
    start: int
    end: int


def tokenise(text: str) -> list[Word]:
    """Cut a caption into words.

    >>> [word.text for word in tokenise("A boy slides into a pool .")]
    ['a', 'boy', 'slides', 'into', 'a', 'pool']
    """
    return [Word(match.group().lower(), match.start(), match.end()) for match in _WORD.finditer(text)]


def words_of(text: str) -> list[str]:
    """Only the words of a caption, without their places."""
    return [word.text for word in tokenise(text)]
