"""Where the noun chunk lies in the words that were said on one region set, told without a parser.

A captioner says lead-up words on a region set too ("riding a brown horse"), since they belong to the chunk they lead up
to. Captions are simple enough for a rule: a chunk begins at its determiner.
"""

from collections.abc import Sequence

DETERMINERS = frozenset({
    "a", "an", "the", "his", "her", "its", "their", "this", "that", "these", "those", "another", "each", "some",
    "several", "many", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "one", "both",
})  # fmt: skip
LINKS = frozenset({
    "about", "above", "across", "after", "against", "along", "alongside", "and", "are", "around", "as", "at", "be",
    "behind", "being", "beneath", "beside", "between", "by", "down", "during", "for", "from", "has", "have", "in",
    "into", "is", "it", "near", "next", "of", "off", "on", "onto", "or", "out", "over", "past", "through", "to",
    "toward", "towards", "under", "up", "was", "were", "while", "who", "which", "with", "without", "'s",
})  # fmt: skip


def noun_part(words: Sequence[str], *, ends_with_chunk: bool) -> range:
    """Places of the noun chunk among the words of one region set; empty where they hold none.

    ``ends_with_chunk``: the captioner moved on after the last word, as it does at the end of a chunk. Otherwise other
    words may follow the chunk.

    >>> noun_part(["riding", "a", "brown", "horse"], ends_with_chunk=True)
    range(1, 4)
    >>> noun_part(["on", "a", "horse", "in", "a", "field"], ends_with_chunk=False)
    range(1, 3)
    """
    starts = [place for place, word in enumerate(words) if word in DETERMINERS]
    if ends_with_chunk:
        start = starts[-1] if starts else _after_links(words)
        return range(start, len(words))
    start = starts[0] if starts else _after_links(words)
    end = start
    while end < len(words) and not _is_link(words[end]) and (end == start or words[end] not in DETERMINERS):
        end += 1
    return range(start, end)


def _is_link(word: str) -> bool:
    return word in LINKS or (word.endswith("ing") and len(word) > 5)


def _after_links(words: Sequence[str]) -> int:
    return next((place for place, word in enumerate(words) if not _is_link(word)), len(words))
