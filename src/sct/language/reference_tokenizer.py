"""Tokenization of the authors' released code: split on spaces, remove 17 punctuation strings."""

from collections.abc import Iterable

_QUOTES_AND_BRACKETS = ("''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-")
_STOPS_AND_DASHES = (".", "?", "!", ",", ":", "-", "--", "...", ";")
PUNCTUATION = _QUOTES_AND_BRACKETS + _STOPS_AND_DASHES
"""In the authors' order, which matters: "-LRB-" must be removed before "-"."""


def caption_key(text: str) -> str:
    r"""Normalize a caption to the form of the keys of ``coco_entities.json``; leading and trailing spaces stay.

    >>> caption_key("A man's dog\trests.\n")
    "a man's dog rests."
    """
    return text.lower().replace("\t", " ").replace("\n", "")


def drop_punctuation(tokens: Iterable[str]) -> list[str]:
    """Remove empty tokens and those that equal one of the 17 strings; others like ".." and "!!" stay.

    >>> drop_punctuation(["a", "", "man", ",", "'s", ".."])
    ['a', 'man', "'s", '..']
    """
    return [token for token in tokens if token and token not in PUNCTUATION]


def clean_caption(text: str) -> str:
    """Remove the 17 strings from a text, first as tokens, then inside words.

    A token of punctuation only, like "..", leaves an empty string behind, that is two spaces in a row. The authors
    count it when they label words (``split(" ")``) but not when they read words (``split()``): an off-by-one error.

    >>> clean_caption("a man 's t-shirt , isn't (it) ?")
    'a man s tshirt isnt (it)'
    >>> clean_caption("a dog .. a bed .").split(" ")
    ['a', 'dog', '', 'a', 'bed']
    """
    cleaned = " ".join(drop_punctuation(text.strip().split(" ")))
    for mark in PUNCTUATION:
        cleaned = cleaned.replace(mark, "")
    return cleaned
