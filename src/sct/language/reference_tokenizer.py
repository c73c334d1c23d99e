"""Words as the authors' released code cuts them: split on spaces, 17 punctuation strings taken out."""

from collections.abc import Iterable

_QUOTES_AND_BRACKETS = ("''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-")
_STOPS_AND_DASHES = (".", "?", "!", ",", ":", "-", "--", "...", ";")
PUNCTUATION = _QUOTES_AND_BRACKETS + _STOPS_AND_DASHES
"""In the authors' order, which counts: "-LRB-" is deleted whole before "-" would tear it apart."""


def caption_key(text: str) -> str:
    r"""Write a caption as the keys of ``coco_entities.json`` are written; spaces at either end stay.

    >>> caption_key("A man's dog\trests.\n")
    "a man's dog rests."
    """
    return text.lower().replace("\t", " ").replace("\n", "")


def without_punctuation(tokens: Iterable[str]) -> list[str]:
    """Leave out the tokens that are one of the 17 strings, and empty ones.

    A token of several marks ("..", "!!") is none of the 17 and stays.

    >>> without_punctuation(["a", "", "man", ",", "'s", ".."])
    ['a', 'man', "'s", '..']
    """
    return [token for token in tokens if token and token not in PUNCTUATION]


def clean(text: str) -> str:
    """Take the 17 strings out of a text, first as tokens, then inside words.

    A token made of nothing else, like "..", leaves an empty place behind: two spaces in a row. It still counts when
    words are labelled (``split(" ")``) but not when they are read (``split()``): the authors' off-by-one.

    >>> clean("a man 's t-shirt , isn't (it) ?")
    'a man s tshirt isnt (it)'
    >>> clean("a dog .. a bed .").split(" ")
    ['a', 'dog', '', 'a', 'bed']
    """
    cleaned = " ".join(without_punctuation(text.strip().split(" ")))
    for mark in PUNCTUATION:
        cleaned = cleaned.replace(mark, "")
    return cleaned
