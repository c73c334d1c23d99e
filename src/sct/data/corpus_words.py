"""The captions that tell of words: to tag all of COCO's would take several times longer.

Which words of a dataset are nouns: what alignment is rewarded and validated by where there is no tagger.

The words that people use for the regions of each class.

The parts of speech of a dataset's words, and the sequences of them that its captions mostly have.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from sct.data.index import caption_of_word, split_index, split_of_caption
from sct.data.table import NO_CHUNK, NO_CLASS, Table
from sct.language.noun_table import NounTable
from sct.language.pos_tags import NO_TAG, Tagger, PosTagger, majority_nouns, majority_tags
from sct.language.vocabulary import UNK, Vocabulary
from sct.language.word_vectors import WordVectors


def captions_covering_words(captions: Iterable[Sequence[int]], num_words: int, times: int) -> Iterator[Sequence[int]]:
    """Captions with a word that has not been shown so many times yet.

    >>> list(captions_covering_words([[0, 1], [0], [1, 0], [2]], num_words=3, times=1))
    [[0, 1], [2]]
    """
    shown = [0] * num_words
    for caption in captions:
        if any(shown[word] < times for word in caption):
            for word in caption:
                shown[word] += 1
            yield caption


TIMES_SHOWN = 20
"""Uses of a word that decide whether it is a noun."""


def build_noun_table(table: Table, vectors: WordVectors) -> NounTable:
    """The words that are nouns in most of the first captions that use them, with their vectors."""
    words, ends = table.columns["word_id"].tolist(), table.columns["word_offsets"].tolist()
    captions = captions_covering_words(
        (words[start:end] for start, end in pairwise(ends)), len(table.words), TIMES_SHOWN
    )
    return NounTable.from_nouns(majority_nouns([table.words[number] for number in caption] for caption in captions), vectors)


MOST_FORMS = 30
"""Words of a class, at most; COCO's people have some hundred, and these are nine in ten of what is said."""


def class_nouns(
    table: Table, split: str, vocabulary: Vocabulary, *, most: int = MOST_FORMS, min_count: int = 20
) -> list[list[int]]:
    """Per class of the table the ids of the words that its chunks end with in a split, the commonest first.

    "A young man" is of the class person, so "man" is a word for it; singular and plural are two words.
    """
    columns = table.columns
    label = columns["word_chunk"].astype(np.int64)
    caption = caption_of_word(table)
    is_other = (label[1:] != label[:-1]) | (caption[1:] != caption[:-1])
    is_last = (label != NO_CHUNK) & np.append(is_other, True)[: len(label)]
    if split in table.splits:
        is_last &= (split_of_caption(table) == split_index(table, split))[caption]
    chunk = columns["chunk_offsets"][caption[is_last]].astype(np.int64) + label[is_last]
    classes = columns["chunk_class"][chunk]
    words = np.array(vocabulary.encode(table.words))[columns["word_id"][is_last]]
    has_both = (classes != NO_CLASS) & (words != UNK)
    pairs = Counter(zip(classes[has_both].tolist(), words[has_both].tolist(), strict=True))
    found: list[list[int]] = [[] for _ in table.classes]
    for (number, word), count in sorted(pairs.items(), key=lambda item: (-item[1], item[0])):
        if count >= min_count and len(found[number]) < most:
            found[number].append(word)
    return found


MOST_TEMPLATES = 1024
"""As many as Deshpande et al. have."""
_USES = 5
"""Captions that a word is tagged in, at least, where so many have it."""
_SPECIAL_WORDS = 4


def word_tags(table: Table, split: str, vocabulary: Vocabulary, *, tagger: Tagger | None = None) -> str:
    """Of each word of the vocabulary the tag that it has most often (``sct.language.pos_tags.TAGS``).

    As many captions of the split are tagged as it takes to meet every word a few times.
    """
    tagged = captions_covering_words(_captions(table, split, vocabulary), len(vocabulary), _USES)
    words = [[vocabulary.words[word] for word in caption] for caption in tagged]
    usual = majority_tags(zip(words, (tagger or PosTagger()).tags(words), strict=True))
    letters = [usual.get(word, "X") for word in vocabulary.words]
    letters[:_SPECIAL_WORDS] = [NO_TAG] * _SPECIAL_WORDS
    letters[UNK] = "X"
    return "".join(letters)


def tag_templates(
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
    ids = np.array(vocabulary.encode(table.words))[table.columns["word_id"]]
    ends = table.columns["word_offsets"].tolist()
    for caption in np.flatnonzero(split_of_caption(table) == split_index(table, split)).tolist():
        yield ids[ends[caption] : ends[caption + 1]].tolist()
