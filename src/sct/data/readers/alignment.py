"""Alignment of annotated chunks with the words of a caption.

``find_phrases`` matches whole tokens (paper mode); ``label_by_substring`` and ``labels_of_words`` reproduce the
authors' substring replacement, including its defects (reference mode).
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby

from sct.language.reference_tokenizer import clean_caption
from sct.language.tokenizer import Token


def find_phrases(text: str, words: Sequence[Token], phrases: Sequence[str]) -> list[range | None]:
    """Return the word indices of each phrase; None for a phrase that is not in the text.

    A phrase takes its first occurrence after the previous phrase, else its first occurrence anywhere. No word is used
    twice, so a repeated phrase takes two occurrences. Only letters and digits of whole words are compared: annotations
    have "chefs knife" where the caption has "chef's knife".

    >>> from sct.language.tokenizer import tokenize_with_spans
    >>> text = "A woman and a man hold a chef's knife"  # chef | 's | knife
    >>> find_phrases(text, tokenize_with_spans(text), ["a woman", "a man", "a chefs knife", "a man"])
    [range(0, 2), range(3, 5), range(6, 10), None]
    """
    spellings = [_alphanumeric(text[word.start : word.end]) for word in words]
    joined = "".join(spellings)
    offsets = list(accumulate(map(len, spellings), initial=0))
    is_free = [True] * len(words)

    def first_span(target: str, begin: int) -> range | None:
        """Return the first run of free words, from ``begin`` on, whose concatenation is ``target``."""
        for start in range(begin, len(words)):
            if spellings[start] and joined.startswith(target, offsets[start]):
                end = offsets[start] + len(target)
                stop = bisect_left(offsets, end)
                if offsets[stop] == end and all(is_free[start:stop]):
                    return range(start, stop)
        return None

    spans: list[range | None] = []
    previous_end = 0
    for phrase in phrases:
        target = _alphanumeric(phrase)
        span = (first_span(target, previous_end) or first_span(target, 0)) if target else None
        spans.append(span)
        if span is not None:
            previous_end = span.stop
            for index in span:
                is_free[index] = False
    return spans


def _alphanumeric(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


def label_by_substring(cleaned: str, chunks: Iterable[tuple[str, str]]) -> list[str | None]:
    """Label each space-separated place of a cleaned caption with the class of its chunk, or None.

    For each (chunk text, class) in turn, every occurrence of the cleaned chunk text, even inside words, is replaced by
    one "_" per word; places that are then exactly "_" take the class. So later chunks overwrite earlier ones, all
    occurrences of a chunk are labelled, and of an occurrence that starts or ends inside a word only whole words.

    >>> label_by_substring("a man and a woman", [("a woman", "woman"), ("man", "man")])  # "wo_" gets no label
    [None, 'man', None, 'woman', 'woman']
    >>> label_by_substring("a pizza dog eats a dog", [("a pizza dog", "food"), ("a dog", "dog")])  # "pizz_ _"
    ['food', 'food', 'dog', None, 'dog', 'dog']
    """
    labels: list[str | None] = [None for _ in cleaned.split(" ")]
    for chunk_text, class_name in chunks:
        chunk = clean_caption(chunk_text)
        marks = " ".join("_" for _ in chunk.split(" "))
        for index, word in enumerate(cleaned.replace(chunk, marks).split(" ")):
            if word == "_":
                labels[index] = class_name
    return labels


def count_runs(labels: Iterable[str | None]) -> int:
    """Count the runs of equal labels other than None.

    >>> count_runs(["man", "man", None, "man", "dog"])
    3
    """
    return sum(label is not None for label, _ in groupby(labels))


def labels_of_words(cleaned: str, labels: Sequence[str | None]) -> list[str | None]:
    """Pair words with labels by position, as the authors do, although empty places have a label but are not words.

    After an empty place each word takes the label of its left neighbour, and the last label is lost. The authors still
    count the lost label as a slot at test time; a caption that loses a whole chunk this way is very rare.

    >>> labels_of_words("a man  rides a horse", ["man", "man", None, None, "horse", "horse"])
    ['man', 'man', None, None, 'horse']
    """
    num_words = len(cleaned.split())
    return [*labels[:num_words], *[None] * (num_words - len(labels))]
