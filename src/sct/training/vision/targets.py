"""What people said of the regions of a dataset's images, as tables to learn to see from."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from sct.data.index import caption_of_word, image_of_caption, region_of_member, split_number, split_of_caption
from sct.data.table import NO_CHUNK, NO_CLASS, Table

MAX_REGIONS = 16
"""Regions of an image that are learned from; hardly an image has more."""
_SAY_NOTHING_OF_LOOKS = frozenset((
    "a", "an", "the", "and", "or", "of", "in", "on", "at", "to", "with", "by", "from", "for",
    "into", "onto", "over", "under", "near", "next", "up", "down", "out", "off", "through", "while", "as", "is",
    "are", "be", "being", "has", "have", "it", "its", "his", "her", "their", "them", "he", "she", "they",
    "there", "this", "that", "who", "which", "one", "another", "other", "some", "left", "right",
))  # fmt: skip
"""Function words, and words that a mirrored image makes wrong."""


@dataclass(frozen=True, slots=True, eq=False)
class SightTargets:
    """Per image its boxes, and what they and the image were called."""

    names: tuple[str, ...]
    words: tuple[str, ...]
    boxes: Float[np.ndarray, "images regions 4"]
    """Relative to the image."""
    is_region: Bool[np.ndarray, "images regions"]
    region_names: Float[np.ndarray, "rows names"]
    """How often each region was called what, as shares; rows of zeros where no name is known."""
    region_words: Bool[np.ndarray, "rows words"]
    region_row: Int[np.ndarray, "images regions"]
    """Rows of the two tables above, which are those of the dataset's regions."""
    image_words: Bool[np.ndarray, "images words"]


def sight_targets(table: Table, *, min_class_count: int = 8, min_word_count: int = 12) -> SightTargets:
    """Count in the training split which names and words there are, and lay out what all images say of their regions."""
    columns = table.columns
    caption = caption_of_word(table)
    is_training = split_of_caption(table) == split_number(table, "train")
    counts = Counter(columns["word"][is_training[caption]].tolist())
    words = tuple(
        word
        for number, word in enumerate(table.words)
        if counts[number] >= min_word_count and word not in _SAY_NOTHING_OF_LOOKS
    )
    caption_of_chunk = np.repeat(np.arange(len(columns["auto_grounded"])), np.diff(columns["caption_chunk"]))
    in_training = is_training[caption_of_chunk] & (np.diff(columns["chunk_region"]) > 0)
    name_counts = Counter(columns["chunk_class"][in_training].tolist())
    names = tuple(name for number, name in enumerate(table.classes) if name_counts[number] >= min_class_count)

    name_of_class = _renumbered(table.classes, names)
    word_of_word = _renumbered(table.words, words)
    ends = columns["image_region"].astype(np.int64)
    num_regions, image = int(ends[-1]), image_of_caption(table)
    region_names = np.zeros((num_regions, len(names)), np.float32)
    region_words = np.zeros((num_regions, len(words)), bool)
    chunk_rows = region_of_member(table)
    chunk_starts = columns["chunk_region"].astype(np.int64)
    for chunk, class_number in enumerate(columns["chunk_class"].tolist()):
        if class_number != NO_CLASS and name_of_class[class_number] >= 0:
            region_names[chunk_rows[chunk_starts[chunk] : chunk_starts[chunk + 1]], name_of_class[class_number]] += 1
    chunk_of_word = columns["caption_chunk"][caption].astype(np.int64) + columns["word_chunk"]
    in_chunk = (columns["word_chunk"] != NO_CHUNK) & (word_of_word[columns["word"]] >= 0)
    for chunk, word in zip(
        chunk_of_word[in_chunk].tolist(), word_of_word[columns["word"][in_chunk]].tolist(), strict=True
    ):
        region_words[chunk_rows[chunk_starts[chunk] : chunk_starts[chunk + 1]], word] = True
    region_names /= region_names.sum(1, keepdims=True).clip(min=1)

    known = word_of_word[columns["word"]] >= 0
    image_words = np.zeros((len(table.image_ids), len(words)), bool)
    image_words[image[caption[known]], word_of_word[columns["word"][known]]] = True

    count = np.minimum(np.diff(ends), MAX_REGIONS)
    is_region = np.arange(MAX_REGIONS) < count[:, None]
    row = np.where(is_region, ends[:-1, None] + np.arange(MAX_REGIONS), 0)
    sizes = np.concatenate([columns["image_size"]] * 2, axis=1)
    boxes = np.where(is_region[..., None], columns["region_box"][row] / sizes[:, None], 0)
    return SightTargets(names, words, boxes.astype(np.float32), is_region, region_names, region_words, row, image_words)


def _renumbered(names: tuple[str, ...], kept: tuple[str, ...]) -> Int[np.ndarray, " names"]:
    """Place of each name among the kept ones; -1 where it is not there."""
    places = {name: place for place, name in enumerate(kept)}
    return np.array([places.get(name, -1) for name in names], np.int64)
