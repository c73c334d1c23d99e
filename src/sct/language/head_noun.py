"""Head noun of a noun chunk, by rule."""

from collections.abc import Container, Sequence

from sct.language.chunk_span import FUNCTION_WORDS
from sct.language.inflection import base_forms
from sct.language.noun_chunks import MEASURE_NOUNS


def head_index(words: Sequence[str], nouns: Container[str]) -> int | None:
    """Index of the head noun: "man" in "a man with a hat", but "people" in "a group of people".

    >>> nouns = {"man", "hat", "group", "people"}
    >>> [head_index(text.split(), nouns) for text in ("a man with a hat", "a group of people", "")]
    [1, 3, None]
    """
    end, head = len(words), None
    for index, word in enumerate(words):
        if word in nouns:
            head = index
        elif word in FUNCTION_WORDS and head is not None:
            if word != "of" or MEASURE_NOUNS.isdisjoint(base_forms(words[head])):
                end = index
                break
            head = None
    # A noun that is missing from the table is likely the last word.
    return head if head is not None else (end - 1 if end else None)
