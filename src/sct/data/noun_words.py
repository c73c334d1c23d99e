"""Which words of a dataset are nouns: what alignment is rewarded and validated by where there is no tagger."""

from itertools import pairwise

from sct.data.table import Table
from sct.data.telling_captions import telling_captions
from sct.language.noun_tagger import noun_table
from sct.language.nouns import NounTable
from sct.language.vectors import WordVectors

TIMES_SHOWN = 20
"""Uses of a word that decide whether it is a noun."""


def dataset_nouns(table: Table, vectors: WordVectors) -> NounTable:
    """The words that are nouns in most of the first captions that use them, with their vectors."""
    words, ends = table.columns["word"].tolist(), table.columns["caption_word"].tolist()
    captions = telling_captions((words[start:end] for start, end in pairwise(ends)), len(table.words), TIMES_SHOWN)
    return noun_table(([table.words[number] for number in caption] for caption in captions), vectors)
