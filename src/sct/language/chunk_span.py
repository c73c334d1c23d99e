"""Where the noun chunk lies in the words that were said on one region set, told without a parser.

A captioner says lead-up words on a region set too ("riding a brown horse"), since they belong to the chunk they lead up
to. Captions are simple enough for a rule: a chunk begins at its determiner.
"""

from collections.abc import Container, Sequence

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


_PLURALS = frozenset({"people", "men", "women", "children"})


def chunk_span(words: Sequence[str], *, ends_with_chunk: bool) -> range:
    """Places of the noun chunk among the words of one region set; empty where they hold none.

    ``ends_with_chunk``: the captioner moved on after the last word, as it does at the end of a chunk. Otherwise other
    words may follow the chunk.

    >>> chunk_span(["riding", "a", "brown", "horse"], ends_with_chunk=True)
    range(1, 4)
    >>> chunk_span(["on", "a", "horse", "in", "a", "field"], ends_with_chunk=False)
    range(1, 3)
    """
    starts = [place for place in range(len(words)) if _is_determiner(words, place)]
    if ends_with_chunk:
        return range(starts[-1] if starts else _after_links(words), len(words))
    start = starts[0] if starts else _after_links(words)
    end = min(start + 1, len(words))
    while end < len(words) and end not in starts and not _ends_chunk(words, start, end):
        end += 1
    return range(start, end)


def extends_chunk(last: str, word: str, nouns: Container[str]) -> bool:
    """Whether a chunk that ends with one word goes on with the next: the pointer may have moved on a word early.

    After a noun that next word may as well be a verb ("a man rides", "two men play"), so there both must be singular,
    as those of "a soccer ball" are.

    >>> nouns = {"soccer", "ball", "man", "rides"}
    >>> extends_chunk("blue", "ball", nouns), extends_chunk("soccer", "ball", nouns), extends_chunk("man", "rides", nouns)
    (True, True, False)
    """
    if word not in nouns or last in LINKS or _is_participle(word):
        return False
    return last not in nouns or not (last in _PLURALS or last.endswith("s") or word.endswith("s"))


def _is_determiner(words: Sequence[str], place: int) -> bool:
    """Tell "that man" from "a man that is": a determiner has something to determine."""
    followed_by_noun = place + 1 < len(words) and words[place + 1] not in LINKS
    return words[place] in DETERMINERS and followed_by_noun


def _ends_chunk(words: Sequence[str], start: int, place: int) -> bool:
    """Whether the chunk is over before this word.

    Words in "-ing" are verbs after a noun ("a man riding"), but nouns or adjectives after a determiner ("a building",
    "a living room"); and one that nothing follows names a thing ("a large building").
    """
    if words[place] in LINKS:
        return True
    is_first_after_determiner = place == start + 1 and words[start] in DETERMINERS
    return _is_participle(words[place]) and not is_first_after_determiner and place + 1 < len(words)


def _is_participle(word: str) -> bool:
    return word.endswith("ing") and len(word) > 5


def _after_links(words: Sequence[str]) -> int:
    """Skip what leads up to a chunk without a determiner: "riding on top of horses"."""
    places = [
        place for place, word in enumerate(words) if word in LINKS or (_is_participle(word) and place + 1 < len(words))
    ]
    return max(places, default=-1) + 1 if places != list(range(len(words))) else len(words)
