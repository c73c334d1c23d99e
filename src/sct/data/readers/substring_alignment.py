"""Which word is in which chunk, as the authors' code finds it: by replacing substrings, defects included."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from sct.language.reference_tokens import clean


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
