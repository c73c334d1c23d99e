"""The words that people use for the regions of each class."""

from collections import Counter

import numpy as np

from sct.data.mentions import caption_of_word, split_number, split_of_caption
from sct.data.table import NO_CHUNK, NO_CLASS, Table
from sct.language.vocabulary import UNKNOWN, Vocabulary

MOST_FORMS = 30
"""Words of a class, at most; COCO's people have some hundred, and these are nine in ten of what is said."""


def slot_words(
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
        is_last &= (split_of_caption(table) == split_number(table, split))[caption]
    chunk = columns["caption_chunk"][caption[is_last]].astype(np.int64) + label[is_last]
    classes = columns["chunk_class"][chunk]
    words = np.array(vocabulary.encode(table.words))[columns["word"][is_last]]
    has_both = (classes != NO_CLASS) & (words != UNKNOWN)
    pairs = Counter(zip(classes[has_both].tolist(), words[has_both].tolist(), strict=True))
    found: list[list[int]] = [[] for _ in table.classes]
    for (number, word), count in sorted(pairs.items(), key=lambda item: (-item[1], item[0])):
        if count >= min_count and len(found[number]) < most:
            found[number].append(word)
    return found
