"""The parts of speech of a dataset's words, and the sequences of them that its captions mostly have."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from sct.data.mentions import split_number, split_of_caption
from sct.data.table import Table
from sct.data.telling_captions import telling_captions
from sct.language.vocabulary import UNKNOWN, Vocabulary
from sct.language.word_tags import NO_TAG, Tagger, WordTagger, usual_tags

MOST_TEMPLATES = 1024
"""As many as Deshpande et al. have."""
_USES = 5
"""Captions that a word is tagged in, at least, where so many have it."""
_SPECIAL_WORDS = 4


def word_tags(table: Table, split: str, vocabulary: Vocabulary, *, tagger: Tagger | None = None) -> str:
    """Of each word of the vocabulary the tag that it has most often (``sct.language.word_tags.TAGS``).

    As many captions of the split are tagged as it takes to meet every word a few times.
    """
    tagged = telling_captions(_captions(table, split, vocabulary), len(vocabulary), _USES)
    words = [[vocabulary.words[word] for word in caption] for caption in tagged]
    usual = usual_tags(zip(words, (tagger or WordTagger()).tags(words), strict=True))
    letters = [usual.get(word, "X") for word in vocabulary.words]
    letters[:_SPECIAL_WORDS] = [NO_TAG] * _SPECIAL_WORDS
    letters[UNKNOWN] = "X"
    return "".join(letters)


def tag_sequences(
    table: Table, split: str, vocabulary: Vocabulary, tags: str, *, most: int = MOST_TEMPLATES, longest: int = 18
) -> tuple[str, ...]:
    """The commonest sequences of tags of a split's captions, the commonest first.

    In a sequence a word has its usual tag: a captioner knows words, not how they were meant.
    """
    captions = _captions(table, split, vocabulary)
    counts = Counter("".join([tags[word] for word in caption[:longest]]) for caption in captions)
    common = sorted((item for item in counts.items() if item[0]), key=lambda item: (-item[1], item[0]))
    return tuple(template for template, _ in common[:most])


def _captions(table: Table, split: str, vocabulary: Vocabulary) -> Iterator[list[int]]:
    """The words of each caption of a split, as ids of the vocabulary."""
    if split not in table.splits:
        return
    ids = np.array(vocabulary.encode(table.words))[table.columns["word"]]
    ends = table.columns["caption_word"].tolist()
    for caption in np.flatnonzero(split_of_caption(table) == split_number(table, split)).tolist():
        yield ids[ends[caption] : ends[caption + 1]].tolist()
