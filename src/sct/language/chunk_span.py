"""Rule-based noun chunk detection in the words generated for one region set, without a parser.

A captioner also generates the words that lead up to a chunk on its region set ("riding a brown horse"). Captions are
simple enough for a rule: a chunk begins at its determiner.
"""

from collections.abc import Container, Sequence

DETERMINERS = frozenset({
    "a", "an", "the", "his", "her", "its", "their", "this", "that", "these", "those", "another", "each", "some",
    "several", "many", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "one", "both",
})  # fmt: skip
FUNCTION_WORDS = frozenset({
    "about", "above", "across", "after", "against", "along", "alongside", "and", "are", "around", "as", "at", "be",
    "behind", "being", "beneath", "beside", "between", "by", "down", "during", "for", "from", "has", "have", "in",
    "into", "is", "it", "near", "next", "of", "off", "on", "onto", "or", "out", "over", "past", "through", "to",
    "toward", "towards", "under", "up", "was", "were", "while", "who", "which", "with", "without", "'s",
})  # fmt: skip
"""Prepositions, conjunctions, auxiliaries and pronouns, which are never part of a chunk."""
_PLURALS = frozenset({"people", "men", "women", "children"})


def chunk_span(words: Sequence[str], *, ends_with_chunk: bool) -> range:
    """Find the noun chunk among the words of one region set; empty without one.

    ``ends_with_chunk``: the pointer shifted after the last word, as it does at the end of a chunk. Otherwise other
    words may follow the chunk.

    >>> chunk_span(["riding", "a", "brown", "horse"], ends_with_chunk=True)
    range(1, 4)
    >>> chunk_span(["on", "a", "horse", "in", "a", "field"], ends_with_chunk=False)
    range(1, 3)
    """
    starts = [index for index in range(len(words)) if _is_determiner(words, index)]
    if ends_with_chunk:
        return range(starts[-1] if starts else _skip_lead_up(words), len(words))
    start = starts[0] if starts else _skip_lead_up(words)
    end = min(start + 1, len(words))
    while end < len(words) and end not in starts and not _ends_chunk(words, start, end):
        end += 1
    return range(start, end)


def extends_chunk(last: str, word: str, nouns: Container[str]) -> bool:
    """Whether ``word`` continues a chunk that ends with ``last``: the pointer may have shifted one word early.

    After a noun, ``word`` may also be a verb ("a man rides", "two men play"); both must then be singular, as in
    "a soccer ball".

    >>> nouns = {"soccer", "ball", "man", "rides"}
    >>> [extends_chunk(*words, nouns) for words in (("blue", "ball"), ("soccer", "ball"), ("man", "rides"))]
    [True, True, False]
    """
    if word not in nouns or last in FUNCTION_WORDS or _is_participle(word):
        return False
    return last not in nouns or not (last in _PLURALS or last.endswith("s") or word.endswith("s"))


def _is_determiner(words: Sequence[str], index: int) -> bool:
    """Distinguish "that man" from "a man that is": a determiner precedes a word that can be part of a chunk."""
    followed_by_noun = index + 1 < len(words) and words[index + 1] not in FUNCTION_WORDS
    return words[index] in DETERMINERS and followed_by_noun


def _ends_chunk(words: Sequence[str], start: int, index: int) -> bool:
    """Whether the chunk ends before the word at ``index``.

    Words in "-ing" are verbs after a noun ("a man riding"), but nouns or adjectives after a determiner ("a building",
    "a living room") and at the end ("a large building").
    """
    if words[index] in FUNCTION_WORDS:
        return True
    is_first_after_determiner = index == start + 1 and words[start] in DETERMINERS
    return _is_participle(words[index]) and not is_first_after_determiner and index + 1 < len(words)


def _is_participle(word: str) -> bool:
    return word.endswith("ing") and len(word) > 5


def _skip_lead_up(words: Sequence[str]) -> int:
    """Return the index of the first word after "riding on top of" in "riding on top of horses"."""
    indices = [
        index
        for index, word in enumerate(words)
        if word in FUNCTION_WORDS or (_is_participle(word) and index + 1 < len(words))
    ]
    return max(indices, default=-1) + 1 if indices != list(range(len(words))) else len(words)
