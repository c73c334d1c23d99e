"""Training targets of the vision encoder: class names and words that people used for regions and images.

Class names are COCO-like classes of annotated boxes and head nouns of captions; words are those of captions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int16, Integer

from sct.data.dataset import Dataset
from sct.data.index import caption_of_word, image_of_caption, region_of_member, split_index
from sct.data.table import NO_CHUNK, TRAINING_SPLIT, Table
from sct.errors import InputError

NONE = -1
"""Fills rows of targets."""
_MAX_NAMES = np.iinfo(np.int16).max
MAX_REGIONS = 24
"""Regions per image, the largest ones; few images have more."""
_MAX_REGION_NOUNS, _MAX_REGION_WORDS, _MAX_IMAGE_NOUNS, _MAX_IMAGE_WORDS = 4, 8, 24, 40
_ADJECTIVE = "A"
_NON_VISUAL_WORDS = frozenset((
    "a", "an", "the", "and", "or", "of", "in", "on", "at", "to", "with", "by", "from", "for",
    "into", "onto", "over", "under", "near", "next", "up", "down", "out", "off", "through", "while", "as", "is",
    "are", "be", "being", "has", "have", "it", "its", "his", "her", "their", "them", "he", "she", "they",
    "there", "this", "that", "who", "which", "one", "another", "other", "some", "left", "right",
))  # fmt: skip
"""Function words, and words that a horizontal flip makes wrong."""


@dataclass(frozen=True, slots=True, eq=False)
class VisionTargets:
    """Boxes of all images, and the class names and words of regions and images; rows are filled with ``NONE``."""

    class_names: tuple[str, ...]
    words: tuple[str, ...]
    attributes: frozenset[str]
    """Words that are adjectives."""
    boxes: Float[np.ndarray, "images regions 4"]
    """Relative to the image."""
    is_region: Bool[np.ndarray, "images regions"]
    region_classes: Int16[np.ndarray, "images regions names"]
    region_class_weights: Float[np.ndarray, "images regions names"]
    """Of human-grounded images, the distribution over ``region_classes``; of others, 1 for each possible name."""
    region_words: Int16[np.ndarray, "images regions words"]
    """In images that are not human-grounded, only of chunks with a single region."""
    image_classes: Int16[np.ndarray, "images nouns"]
    """Class names in the captions of an image."""
    is_boxed: Bool[np.ndarray, "images nouns"]
    """Whether some region has this class name."""
    image_words: Int16[np.ndarray, "images image_words"]
    human_grounded: Bool[np.ndarray, " images"]
    """Whether people drew a box for everything that captions mention, not only for objects of some classes."""


class _Chunks(NamedTuple):
    """Rows that belong to each chunk of a table."""

    image: Int[np.ndarray, " chunks"]
    lemma: Int[np.ndarray, " chunks"]
    is_training: Bool[np.ndarray, " chunks"]
    is_grounded: Bool[np.ndarray, " chunks"]
    is_certain: Bool[np.ndarray, " chunks"]
    """Grounded by people, or on one region only: "a man" may be on all regions of the class person."""
    of_member: Int[np.ndarray, " members"]


def build_targets(dataset: Dataset, *, min_class_count: int, min_noun_count: int, min_word_count: int) -> VisionTargets:
    """Choose class names and words by their counts in the training split, and collect those of all images.

    Class names are classes of annotated boxes and nouns of human-grounded chunks with ``min_class_count`` uses, and
    nouns of any chunk with ``min_noun_count``.
    """
    table, columns = dataset.table, dataset.table.columns
    num_images, num_regions = len(table.image_ids), int(columns["region_offsets"][-1])
    human_grounded = _human_grounded(table)
    chunks = _find_chunks(table, human_grounded)
    image_of_region = np.repeat(np.arange(num_images), np.diff(columns["region_offsets"]))
    in_training = columns["image_split"] == split_index(table, TRAINING_SPLIT)
    annotated = columns["region_class"][in_training[image_of_region] & ~human_grounded[image_of_region]]
    mentioned = chunks.lemma[chunks.is_training & chunks.is_grounded & human_grounded[chunks.image]]
    class_names = tuple(
        dict.fromkeys([
            *_frequent(table.classes, annotated, min_class_count),
            *_frequent(table.lemmas, mentioned, min_class_count),
            *_frequent(table.lemmas, chunks.lemma[chunks.is_training], min_noun_count),
        ])
    )  # fmt: skip
    caption = caption_of_word(table)
    image_of_word = image_of_caption(table)[caption]
    words = _frequent(table.words, columns["word_id"][in_training[image_of_word]], min_word_count)
    if not class_names or not words:
        raise InputError(
            f"the training split has {len(class_names)} class names and {len(words)} words that are frequent enough: "
            "lower min_class_count, min_noun_count and min_word_count"
        )
    if max(len(class_names), len(words)) > _MAX_NAMES:
        raise InputError(
            f"the training split has {len(class_names):,} class names and {len(words):,} words, expected at most "
            f"{_MAX_NAMES:,} of each: raise min_class_count, min_noun_count and min_word_count"
        )

    member_region = region_of_member(table)
    class_of_lemma = np.append(_indices(table.lemmas, class_names), NONE)  # the last one is that of NO_LEMMA
    noun = class_of_lemma[np.minimum(chunks.lemma, len(table.lemmas))]
    class_of_region = np.append(_indices(table.classes, class_names), NONE)[
        np.minimum(columns["region_class"].astype(np.int64), len(table.classes))
    ]
    # "A hot dog" is not a dog: a noun that names another annotated class does not describe the region.
    member_noun = noun[chunks.of_member]
    is_annotated_class = np.isin(np.arange(len(class_names)), class_of_region[~human_grounded[image_of_region]])
    describes = human_grounded[image_of_region[member_region]] | ~(
        is_annotated_class[member_noun] & (member_noun != class_of_region[member_region])
    )
    nouns = _most_frequent(
        member_region[describes], member_noun[describes], (num_regions, _MAX_REGION_NOUNS), len(class_names)
    )
    annotated_class = np.where(human_grounded[image_of_region], NONE, class_of_region)
    nouns.values[nouns.values == annotated_class[:, None]] = NONE
    region_classes = np.concatenate([nouns.values, annotated_class[:, None]], axis=1).astype(np.int16)
    weights = np.where(
        human_grounded[image_of_region, None], np.pad(nouns.shares, ((0, 0), (0, 1))), region_classes >= 0
    ).astype(np.float32)

    word = _indices(table.words, words)[columns["word_id"]]
    in_chunk = columns["word_chunk"] != NO_CHUNK
    chunk_of_word = columns["chunk_offsets"][caption[in_chunk]].astype(np.int64) + columns["word_chunk"][in_chunk]
    is_certain = chunks.is_certain[chunk_of_word]
    region_words = _most_frequent(
        *_words_of_regions(
            chunk_of_word[is_certain],
            word[in_chunk][is_certain],
            member_region,
            columns["member_offsets"].astype(np.int64),
        ),
        (num_regions, _MAX_REGION_WORDS),
        len(words),
    )
    image_nouns = _most_frequent(chunks.image, noun, (num_images, _MAX_IMAGE_NOUNS), len(class_names))
    image_words = _most_frequent(image_of_word, word, (num_images, _MAX_IMAGE_WORDS), len(words))
    is_boxed = chunks.is_grounded & (noun >= 0)
    boxed = np.unique(chunks.image[is_boxed] * len(class_names) + noun[is_boxed])
    region = _largest_regions(columns["region_box"], columns["region_offsets"].astype(np.int64))
    is_region = region >= 0
    sizes = np.concatenate([columns["image_size"]] * 2, axis=1)
    return VisionTargets(
        class_names=class_names,
        words=words,
        attributes=_attributes(dataset, words),
        boxes=np.where(is_region[..., None], columns["region_box"][region] / sizes[:, None], 0).astype(np.float32),
        is_region=is_region,
        region_classes=np.where(is_region[..., None], region_classes[region], NONE).astype(np.int16),
        region_class_weights=np.where(is_region[..., None], weights[region], 0).astype(np.float32),
        region_words=np.where(is_region[..., None], region_words.values[region], NONE).astype(np.int16),
        image_classes=image_nouns.values,
        is_boxed=np.isin(np.arange(num_images)[:, None] * len(class_names) + image_nouns.values, boxed),
        image_words=image_words.values,
        human_grounded=human_grounded,
    )


def _find_chunks(table: Table, human_grounded: Bool[np.ndarray, " images"]) -> _Chunks:
    columns = table.columns
    image = np.repeat(image_of_caption(table), np.diff(columns["chunk_offsets"]))
    lengths = np.diff(columns["member_offsets"])
    return _Chunks(
        image,
        columns["chunk_lemma"].astype(np.int64),
        (columns["image_split"] == split_index(table, TRAINING_SPLIT))[image],
        lengths > 0,
        human_grounded[image] | (lengths == 1),
        np.repeat(np.arange(len(lengths)), lengths),
    )


def _human_grounded(table: Table) -> Bool[np.ndarray, " images"]:
    """Whether any caption of an image was grounded by people."""
    grounded: np.ndarray = np.zeros(len(table.image_ids), bool)
    grounded[image_of_caption(table)[~table.columns["auto_grounded"]]] = True
    return grounded


def _frequent(names: Sequence[str], uses: Integer[np.ndarray, " uses"], min_count: int) -> tuple[str, ...]:
    """Names with enough uses, most frequent first; without function words."""
    counts = np.bincount(uses[uses < len(names)], minlength=len(names))
    ranked = np.argsort(-counts, kind="stable").tolist()
    return tuple(
        names[index] for index in ranked if counts[index] >= min_count and names[index] not in _NON_VISUAL_WORDS
    )


def _indices(names: Sequence[str], kept: Sequence[str]) -> Int[np.ndarray, " names"]:
    """Index of each name among the kept ones, or ``NONE``."""
    indices = {name: index for index, name in enumerate(kept)}
    return np.array([indices.get(name, NONE) for name in names], np.int64)


class _Frequent(NamedTuple):
    """The most frequent values of each row, filled with ``NONE``, and their shares."""

    values: Int16[np.ndarray, "rows limit"]
    shares: Float[np.ndarray, "rows limit"]


def _most_frequent(
    rows: Int[np.ndarray, " uses"], values: Int[np.ndarray, " uses"], shape: tuple[int, int], num_values: int
) -> _Frequent:
    """Most frequent values of each row; ``NONE`` is not counted.

    >>> frequent = _most_frequent(np.array([0, 0, 0, 2]), np.array([7, 5, 5, 7]), (3, 2), num_values=9)
    >>> frequent.values.tolist(), frequent.shares[2].tolist()
    ([[5, 7], [-1, -1], [7, -1]], [1.0, 0.0])
    """
    is_value = values >= 0
    unique, counts = np.unique(rows[is_value] * num_values + values[is_value], return_counts=True)
    row, value = np.divmod(unique, max(num_values, 1))
    order = np.lexsort((value, -counts, row))
    row, value, counts = row[order], value[order], counts[order]
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    kept = rank < shape[1]
    found, shares = np.full(shape, NONE, np.int16), np.zeros(shape, np.float32)
    found[row[kept], rank[kept]], shares[row[kept], rank[kept]] = value[kept], counts[kept]
    return _Frequent(found, shares / shares.sum(1, keepdims=True).clip(min=1))


def _words_of_regions(
    chunk_of_word: Int[np.ndarray, " words"],
    word: Int[np.ndarray, " words"],
    member_region: Int[np.ndarray, " members"],
    member_offsets: Int[np.ndarray, " chunks_and_1"],
) -> tuple[Int[np.ndarray, " uses"], Int[np.ndarray, " uses"]]:
    """Regions and words of every pair of a chunk's word and a region of its region set."""
    lengths = np.diff(member_offsets)[chunk_of_word]
    first = np.repeat(member_offsets[chunk_of_word], lengths)
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return member_region[first + within], np.repeat(word, lengths)


def _largest_regions(
    boxes: Float[np.ndarray, "regions 4"], offsets: Int[np.ndarray, " images_and_1"]
) -> Int[np.ndarray, "images largest"]:
    """Rows of the largest regions of each image, filled with ``NONE``."""
    image = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((-np.prod(boxes[:, 2:] - boxes[:, :2], axis=1), image))
    rank = np.arange(len(order)) - offsets[image]  # images stay in their order
    rows: np.ndarray = np.full((len(offsets) - 1, MAX_REGIONS), NONE, np.int64)
    rows[image[rank < MAX_REGIONS], rank[rank < MAX_REGIONS]] = order[rank < MAX_REGIONS]
    return rows


def _attributes(dataset: Dataset, words: Sequence[str]) -> frozenset[str]:
    """Words that are most often adjectives; none if the dataset has no part-of-speech tags."""
    tags = zip(dataset.vocabulary.words, dataset.tags or "", strict=False)
    return frozenset(words).intersection(word for word, tag in tags if tag == _ADJECTIVE)
