"""Which words of a dataset are nouns: what alignment is rewarded and validated by where there is no tagger."""

from collections.abc import Iterator
from itertools import pairwise

from sct.data.table import Table
from sct.language.noun_tagger import noun_table
from sct.language.nouns import NounTable
from sct.language.vectors import WordVectors

TIMES_SHOWN = 20
"""Uses of a word that decide whether it is a noun; to tag all of COCO's captions would take several times longer."""


def dataset_nouns(table: Table, vectors: WordVectors) -> NounTable:
    """The words that are nouns in most of the first captions that use them, with their vectors."""
    return noun_table(_telling_captions(table), vectors)


def _telling_captions(table: Table) -> Iterator[list[str]]:
    """Captions with a word that has not been shown often enough yet."""
    words, ends = table.columns["word"].tolist(), table.columns["caption_word"].tolist()
    shown = [0] * len(table.words)
    for start, end in pairwise(ends):
        numbers = words[start:end]
        if any(shown[number] < TIMES_SHOWN for number in numbers):
            for number in numbers:
                shown[number] += 1
            yield [table.words[number] for number in numbers]
