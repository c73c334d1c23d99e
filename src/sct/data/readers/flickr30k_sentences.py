"""A line of Flickr30k Entities' ``Sentences``: words, and phrases in brackets that name their chain of mentions."""

import re
from dataclasses import dataclass

from sct.errors import InputError

_PHRASE = re.compile(r"/EN#(?P<chain>\d+)(?P<types>(?:/[^/\s]+)+)(?:\s+(?P<words>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a sentence: a phrase, or what stands between two."""

    text: str
    chain: str | None = None
    """The number shared by all phrases of the image that mean the same thing; "0" for what cannot be seen."""


def parse_sentence(line: str) -> list[Segment]:
    """Take the brackets off.

    >>> parse_sentence("[/EN#12/people A man] in [/EN#15/clothing/other a hat] .")
    [Segment(text='A man', chain='12'), Segment(text=' in ', chain=None), Segment(text='a hat', chain='15'), \
Segment(text=' .', chain=None)]
    >>> parse_sentence("[/EN#12/people A man in a hat .")
    Traceback (most recent call last):
        ...
    sct.errors.InputError: the bracket opened at column 1 is never closed
    """
    segments = []
    position = 0
    while position < len(line):
        opening = line.find("[", position)
        end = len(line) if opening < 0 else opening
        if (stray := line.find("]", position, end)) >= 0:
            raise InputError(f"the bracket closed at column {stray + 1} was never opened")
        if end > position:
            segments.append(Segment(line[position:end]))
        if opening < 0:
            break
        closing = line.find("]", opening)
        if closing < 0:
            raise InputError(f"the bracket opened at column {opening + 1} is never closed")
        inside = line[opening + 1 : closing]
        if "[" in inside:
            raise InputError(f"the bracket opened at column {opening + 1} holds another one")
        phrase = _PHRASE.fullmatch(inside)
        if phrase is None:
            raise InputError(
                f"the bracket at column {opening + 1} begins {inside[:20]!r}: wanted /EN#number/type words"
            )
        segments.append(Segment(phrase["words"] or "", phrase["chain"]))
        position = closing + 1
    return segments
