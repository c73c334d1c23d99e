"""Captions as the authors' released code scores them: cut on spaces, without words in a row that are the same."""

from collections.abc import Sequence
from itertools import groupby

from sct.metrics.pairs import Pairs, pair_words


def pair_on_spaces(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> Pairs:
    """Cut captions as the authors' released code does for alignment and IoU: on spaces, letters as they are.

    >>> pairs = pair_on_spaces(["a dog."], [["A  dog"]])
    >>> pairs.candidate(0), pairs.references_of(0)
    (['a', 'dog.'], [['A', 'dog']])
    """
    return pair_words([text.split() for text in candidates], [[text.split() for text in group] for group in references])


def collapse_repeats(caption: str) -> str:
    """Say a word once where a caption says it several times in a row.

    The authors' code does so with all that it generates, in training and at test, and with no reference.

    >>> collapse_repeats("a a dog dog a")
    'a dog a'
    """
    return " ".join(word for word, _ in groupby(caption.split()))
