"""Captions cut as the authors' released code cuts them for alignment and IoU."""

from collections.abc import Sequence
from itertools import groupby

from sct.metrics.pairs import Pairs, pair_words


def pair_on_spaces(candidates: Sequence[str], references: Sequence[Sequence[str]], *, collapse_repeats: bool) -> Pairs:
    """Cut captions as the authors' released code does for alignment and IoU: on spaces, letters as they are.

    ``collapse_repeats`` makes one of the same words in a row, in candidates only: that code does so with all it
    generates, in training and at test.

    >>> pairs = pair_on_spaces(["a a dog"], [["A dog dog"]], collapse_repeats=True)
    >>> pairs.candidate(0), pairs.references_of(0)
    (['a', 'dog'], [['A', 'dog', 'dog']])
    """
    said = [candidate.split() for candidate in candidates]
    if collapse_repeats:
        said = [[word for word, _ in groupby(words)] for words in said]
    return pair_words(said, [[text.split() for text in group] for group in references])
