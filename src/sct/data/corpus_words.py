"""Words of a corpus: its nouns, the nouns that name each class, part-of-speech tags and tag templates."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from sct.data.index import caption_of_word, split_index, split_of_caption
from sct.data.table import NO_CHUNK, Table
from sct.language.noun_table import NounTable
from sct.language.pos_tags import NO_TAG, PosTagger, Tagger, majority_nouns, majority_tags
from sct.language.vocabulary import SPECIAL_TOKENS, UNK, Vocabulary
from sct.language.word_vectors import WordVectors
from sct.regions.records import NO_CLASS

MIN_NOUN_USES = 20
"""Occurrences of a word that are tagged to decide whether it is a noun."""
MIN_TAG_USES = 5
"""Occurrences of a word that are tagged to find its most frequent tag."""
MAX_CLASS_NOUNS = 30
"""Maximum number of nouns per class. COCO's "person" has some hundred; the 30 most frequent cover nine in ten uses."""
MAX_TEMPLATES = 1024
"""Number of tag templates of Deshpande et al. (2019)."""
_BLOCK_IMAGES = 10_000


def captions_covering_words(captions: Iterable[Sequence[int]], num_words: int, times: int) -> Iterator[Sequence[int]]:
    """Select captions until each word has occurred ``times`` times: tagging all of COCO takes several times longer.

    >>> list(captions_covering_words([[0, 1], [0], [1, 0], [2]], num_words=3, times=1))
    [[0, 1], [2]]
    """
    counts = [0] * num_words
    for caption in captions:
        if any(counts[word] < times for word in caption):
            for word in caption:
                counts[word] += 1
            yield caption


def build_noun_table(table: Table, vectors: WordVectors) -> NounTable:
    """Build the noun table of a dataset: words that are nouns in most of their first occurrences."""
    captions = captions_covering_words(_captions(table), len(table.words), MIN_NOUN_USES)
    nouns = majority_nouns([table.words[word] for word in caption] for caption in captions)
    return NounTable.from_nouns(nouns, vectors)


def class_nouns(
    table: Table, split: str, vocabulary: Vocabulary, *, max_nouns: int = MAX_CLASS_NOUNS, min_count: int = 20
) -> list[list[int]]:
    """Return per class the word ids that end its chunks in a split, most frequent first.

    "A young man" is a chunk of the class person, so "man" is one of its nouns; singular and plural are two.
    """
    columns = table.columns
    label = columns["word_chunk"].astype(np.int64)
    caption = caption_of_word(table)
    differs = (label[1:] != label[:-1]) | (caption[1:] != caption[:-1])
    is_last = (label != NO_CHUNK) & np.append(differs, True)[: len(label)]
    if split in table.splits:
        is_last &= (split_of_caption(table) == split_index(table, split))[caption]
    chunk = columns["chunk_offsets"][caption[is_last]].astype(np.int64) + label[is_last]
    classes = columns["chunk_class"][chunk]
    words = np.array(vocabulary.encode(table.words))[columns["word_id"][is_last]]
    is_known = (classes != NO_CLASS) & (words != UNK)
    counts = Counter(zip(classes[is_known].tolist(), words[is_known].tolist(), strict=True))
    nouns: list[list[int]] = [[] for _ in table.classes]
    for (class_id, word), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if count >= min_count and len(nouns[class_id]) < max_nouns:
            nouns[class_id].append(word)
    return nouns


def word_tags(table: Table, split: str, vocabulary: Vocabulary, *, tagger: Tagger | None = None) -> str:
    """Return the most frequent tag (``sct.language.pos_tags.TAGS``) of each word of the vocabulary."""
    selected = captions_covering_words(_captions(table, split, vocabulary), len(vocabulary), MIN_TAG_USES)
    words = [[vocabulary.words[word] for word in caption] for caption in selected]
    tags = majority_tags(zip(words, (tagger or PosTagger()).tags(words), strict=True))
    letters = [tags.get(word, "X") for word in vocabulary.words]
    letters[: len(SPECIAL_TOKENS)] = [NO_TAG] * len(SPECIAL_TOKENS)
    letters[UNK] = "X"
    return "".join(letters)


def tag_templates(
    table: Table,
    split: str,
    vocabulary: Vocabulary,
    tags: str,
    *,
    max_templates: int = MAX_TEMPLATES,
    max_length: int = 18,
) -> tuple[str, ...]:
    """Return the most frequent tag sequences of a split's captions, most frequent first.

    Each word has its most frequent tag: a captioner knows words, not their use in context.
    """
    captions = _captions(table, split, vocabulary)
    counts = Counter("".join([tags[word] for word in caption[:max_length]]) for caption in captions)
    ranked = sorted((item for item in counts.items() if item[0]), key=lambda item: (-item[1], item[0]))
    return tuple(template for template, _ in ranked[:max_templates])


def _captions(table: Table, split: str | None = None, vocabulary: Vocabulary | None = None) -> Iterator[list[int]]:
    """Return the captions of a split, or of all, as ids of the vocabulary, or of the table's words.

    Columns are read in blocks: they may be memory-mapped and larger than memory.
    """
    columns = table.columns
    ids = None if vocabulary is None else np.array(vocabulary.encode(table.words))
    index = table.splits.index(split) if split in table.splits else None
    if split is not None and index is None:
        return
    for first in range(0, len(table.image_ids), _BLOCK_IMAGES):
        images = slice(first, first + _BLOCK_IMAGES)
        caption_offsets = columns["caption_offsets"][images.start : images.stop + 1].astype(np.int64)
        word_offsets = columns["word_offsets"][caption_offsets[0] : caption_offsets[-1] + 1].astype(np.int64)
        words = columns["word_id"][word_offsets[0] : word_offsets[-1]]
        words = (words if ids is None else ids[words]).tolist()
        in_split = columns["image_split"][images] == index if split is not None else np.True_
        is_selected = np.repeat(np.broadcast_to(in_split, len(caption_offsets) - 1), np.diff(caption_offsets))
        bounds = (word_offsets - word_offsets[0]).tolist()
        for caption in np.flatnonzero(is_selected).tolist():
            yield words[bounds[caption] : bounds[caption + 1]]
