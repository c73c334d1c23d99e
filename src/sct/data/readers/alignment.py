"""Which word is in which chunk, as the authors' code finds it: by replacing substrings, defects included.

Which words are a chunk, found by whole tokens: "man" is not in "woman".
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

from sct.language.reference_tokenizer import clean
from sct.language.tokenizer import Word


def label_places(cleaned: str, chunks: Iterable[tuple[str, str]]) -> list[str | None]:
    """Give every place of a cleaned caption the class of its chunk, or None.

    For each (chunk text, class) in turn, every occurrence of the cleaned chunk text in the caption, even inside words,
    becomes one "_" for each of its words; the places that then read exactly "_" take the class. So a later chunk
    overwrites an earlier one, all occurrences of a chunk are labelled though it was listed once, and where an
    occurrence begins or ends inside a word, only its whole words are labelled.

    >>> label_places("a man and a woman", [("a woman", "woman"), ("man", "man")])  # "wo_" is no label
    [None, 'man', None, 'woman', 'woman']
    >>> label_places("a pizza dog eats a dog", [("a pizza dog", "food"), ("a dog", "dog")])  # "pizz_ _"
    ['food', 'food', 'dog', None, 'dog', 'dog']
    """
    labels: list[str | None] = [None for _ in cleaned.split(" ")]
    for chunk_text, class_name in chunks:
        chunk = clean(chunk_text)
        marks = " ".join("_" for _ in chunk.split(" "))
        for place, word in enumerate(cleaned.replace(chunk, marks).split(" ")):
            if word == "_":
                labels[place] = class_name
    return labels


def count_runs(labels: Iterable[str | None]) -> int:
    """Count the runs of equal labels, None apart.

    >>> count_runs(["man", "man", None, "man", "dog"])
    3
    """
    return sum(label is not None for label, _ in groupby(labels))


def labels_of_words(cleaned: str, labels: Sequence[str | None]) -> list[str | None]:
    """Pair words with labels by number, as the authors do, though empty places have a label and are no words.

    Behind an emptied place each word takes the label of its left neighbour, and the last label falls off. The authors
    still count that last label as a slot at test; a caption that loses a whole chunk this way is very rare.

    >>> labels_of_words("a man  rides a horse", ["man", "man", None, None, "horse", "horse"])
    ['man', 'man', None, None, 'horse']
    """
    num_words = len(cleaned.split())
    return [*labels[:num_words], *[None] * (num_words - len(labels))]


def find_phrases(text: str, words: Sequence[Word], phrases: Sequence[str]) -> list[range | None]:
    """Find the words of each phrase; None for a phrase that is not there.

    A phrase takes the first occurrence behind the phrase before it, else the first anywhere, and no word is taken
    twice, so a phrase listed twice takes two occurrences. Only letters and digits are compared, over whole words:
    annotations write "chefs knife" where the caption has "chef's knife".

    >>> from sct.language.tokenizer import tokenize_with_spans
    >>> text = "A woman and a man hold a chef's knife"
    >>> find_phrases(text, tokenize_with_spans(text), ["a woman", "a man", "a chefs knife", "a man"])  # chef | 's | knife
    [range(0, 2), range(3, 5), range(6, 10), None]
    """
    letters = [_letters(text[word.start : word.end]) for word in words]
    free = [True] * len(words)
    found: list[range | None] = []
    behind = 0
    for phrase in phrases:
        expected = _letters(phrase)
        span = _first_span(letters, free, expected, behind) or _first_span(letters, free, expected, 0)
        found.append(span)
        if span is not None:
            behind = span.stop
            for index in span:
                free[index] = False
    return found


def _first_span(letters: Sequence[str], free: Sequence[bool], expected: str, begin: int) -> range | None:
    """Find the first run of free words, from ``begin`` on, that spells what is expected."""
    for start in range(begin, len(letters)):
        spelt = ""
        if not letters[start]:
            continue
        for stop in range(start, len(letters)):
            spelt += letters[stop]
            if not free[stop] or not expected.startswith(spelt):
                break
            if spelt == expected:
                return range(start, stop + 1)
    return None


def _letters(text: str) -> str:
    """Keep what tokenisers do not disagree about."""
    return "".join(character for character in text.lower() if character.isalnum())
