"""Which words are a chunk, found by whole tokens: "man" is not in "woman"."""

from collections.abc import Sequence

from sct.language.tokens import Word


def find_phrases(text: str, words: Sequence[Word], phrases: Sequence[str]) -> list[range | None]:
    """Find the words of each phrase; None for a phrase that is not there.

    A phrase takes the first occurrence behind the phrase before it, else the first anywhere, and no word is taken
    twice, so a phrase listed twice takes two occurrences. Only letters and digits are compared, over whole words:
    annotations write "chefs knife" where the caption has "chef's knife".

    >>> from sct.language.tokens import tokenise
    >>> text = "A woman and a man hold a chef's knife"
    >>> find_phrases(text, tokenise(text), ["a woman", "a man", "a chefs knife", "a man"])  # chef | 's | knife
    [range(0, 2), range(3, 5), range(6, 10), None]
    """
    letters = [_letters(text[word.start : word.end]) for word in words]
    free = [True] * len(words)
    found: list[range | None] = []
    behind = 0
    for phrase in phrases:
        wanted = _letters(phrase)
        span = _first_span(letters, free, wanted, behind) or _first_span(letters, free, wanted, 0)
        found.append(span)
        if span is not None:
            behind = span.stop
            for index in span:
                free[index] = False
    return found


def _first_span(letters: Sequence[str], free: Sequence[bool], wanted: str, begin: int) -> range | None:
    """Find the first run of free words, from ``begin`` on, that spells what is wanted."""
    for start in range(begin, len(letters)):
        spelt = ""
        if not letters[start]:
            continue
        for stop in range(start, len(letters)):
            spelt += letters[stop]
            if not free[stop] or not wanted.startswith(spelt):
                break
            if spelt == wanted:
                return range(start, stop + 1)
    return None


def _letters(text: str) -> str:
    """Keep what tokenisers do not disagree about."""
    return "".join(character for character in text.lower() if character.isalnum())
