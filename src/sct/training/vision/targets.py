"""Training targets of the vision encoder: classes and words that people used for regions and images."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from sct.data.index import caption_of_word, image_of_caption, region_of_member, split_index, split_of_caption
from sct.data.table import NO_CHUNK, TRAINING_SPLIT, Table
from sct.regions.records import NO_CLASS
from sct.training.vision.augment import AugmentedBatch, augment
from sct.training.vision.losses import RegionTargets
from sct.training.vision.metrics import VisionScores, score_vision
from sct.vision.region_network import RegionEncoder

MAX_REGIONS = 16
"""Regions per image; few images have more."""
_NON_VISUAL_WORDS = frozenset((
    "a", "an", "the", "and", "or", "of", "in", "on", "at", "to", "with", "by", "from", "for",
    "into", "onto", "over", "under", "near", "next", "up", "down", "out", "off", "through", "while", "as", "is",
    "are", "be", "being", "has", "have", "it", "its", "his", "her", "their", "them", "he", "she", "they",
    "there", "this", "that", "who", "which", "one", "another", "other", "some", "left", "right",
))  # fmt: skip
"""Function words, and words that a horizontal flip makes wrong."""


@dataclass(frozen=True, slots=True, eq=False)
class VisionTargets:
    """Boxes of all images, and the classes and words of their regions."""

    class_names: tuple[str, ...]
    words: tuple[str, ...]
    boxes: Float[np.ndarray, "images regions 4"]
    """Relative to the image."""
    is_region: Bool[np.ndarray, "images regions"]
    region_row: Int[np.ndarray, "images regions"]
    """Rows of the next two tables, which are those of the dataset's regions."""
    region_classes: Float[np.ndarray, "rows classes"]
    """Distribution of the classes that people gave a region; zeros if none is known."""
    region_words: Bool[np.ndarray, "rows words"]
    image_words: Bool[np.ndarray, "images words"]


def build_targets(table: Table, *, min_class_count: int = 8, min_word_count: int = 12) -> VisionTargets:
    """Count classes and words of the training split, and collect those of the regions of all images."""
    columns = table.columns
    caption = caption_of_word(table)
    is_training = split_of_caption(table) == split_index(table, TRAINING_SPLIT)
    word_counts = Counter(columns["word_id"][is_training[caption]].tolist())
    words = tuple(
        word
        for index, word in enumerate(table.words)
        if word_counts[index] >= min_word_count and word not in _NON_VISUAL_WORDS
    )
    caption_of_chunk = np.repeat(np.arange(len(columns["auto_grounded"])), np.diff(columns["chunk_offsets"]))
    in_training = is_training[caption_of_chunk] & (np.diff(columns["member_offsets"]) > 0)
    class_counts = Counter(columns["chunk_class"][in_training].tolist())
    class_names = tuple(name for index, name in enumerate(table.classes) if class_counts[index] >= min_class_count)

    class_target = _target_indices(table.classes, class_names)
    word_target = _target_indices(table.words, words)
    region_offsets = columns["region_offsets"].astype(np.int64)
    num_regions, image = int(region_offsets[-1]), image_of_caption(table)
    region_classes = np.zeros((num_regions, len(class_names)), np.float32)
    region_words = np.zeros((num_regions, len(words)), bool)
    members = region_of_member(table)
    member_offsets = columns["member_offsets"].astype(np.int64)
    for chunk, class_index in enumerate(columns["chunk_class"].tolist()):
        if class_index != NO_CLASS and class_target[class_index] >= 0:
            regions = members[member_offsets[chunk] : member_offsets[chunk + 1]]
            region_classes[regions, class_target[class_index]] += 1
    chunk_of_word = columns["chunk_offsets"][caption].astype(np.int64) + columns["word_chunk"]
    in_chunk = (columns["word_chunk"] != NO_CHUNK) & (word_target[columns["word_id"]] >= 0)
    for chunk, word in zip(
        chunk_of_word[in_chunk].tolist(), word_target[columns["word_id"][in_chunk]].tolist(), strict=True
    ):
        region_words[members[member_offsets[chunk] : member_offsets[chunk + 1]], word] = True
    region_classes /= region_classes.sum(1, keepdims=True).clip(min=1)

    is_target = word_target[columns["word_id"]] >= 0
    image_words = np.zeros((len(table.image_ids), len(words)), bool)
    image_words[image[caption[is_target]], word_target[columns["word_id"][is_target]]] = True

    count = np.minimum(np.diff(region_offsets), MAX_REGIONS)
    is_region = np.arange(MAX_REGIONS) < count[:, None]
    row = np.where(is_region, region_offsets[:-1, None] + np.arange(MAX_REGIONS), 0)
    sizes = np.concatenate([columns["image_size"]] * 2, axis=1)
    boxes = np.where(is_region[..., None], columns["region_box"][row] / sizes[:, None], 0)
    return VisionTargets(
        class_names, words, boxes.astype(np.float32), is_region, row, region_classes, region_words, image_words
    )


def _target_indices(names: tuple[str, ...], kept: tuple[str, ...]) -> Int[np.ndarray, " names"]:
    """Index of each name among the kept ones, or -1."""
    indices = {name: index for index, name in enumerate(kept)}
    return np.array([indices.get(name, -1) for name in names], np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class VisionData:
    """Images and targets on the training device."""

    pixels: UInt8[Tensor, "images 3 side side"]
    boxes: Float[Tensor, "images regions 4"]
    is_region: Bool[Tensor, "images regions"]
    region_row: Int[Tensor, "images regions"]
    region_classes: Float[Tensor, "rows classes"]
    region_words: Bool[Tensor, "rows words"]
    image_words: Bool[Tensor, "images words"]

    @classmethod
    def on_device(
        cls, pixels: UInt8[Tensor, "images 3 side side"], targets: VisionTargets, device: torch.device
    ) -> "VisionData":
        """Copy everything to the device."""
        columns = (
            targets.boxes, targets.is_region, targets.region_row, targets.region_classes, targets.region_words,
            targets.image_words,
        )  # fmt: skip
        return cls(pixels.to(device), *(torch.from_numpy(column).to(device) for column in columns))

    def augment(self, images: Int[Tensor, " images"]) -> AugmentedBatch:
        """Some images with their boxes, randomly augmented."""
        return augment(self.pixels[images], self.boxes[images], self.is_region[images])

    def targets(self, images: Int[Tensor, " images"]) -> RegionTargets:
        """Targets of some images."""
        rows = self.region_row[images]
        return RegionTargets(self.region_classes[rows], self.region_words[rows], self.image_words[images])

    def score(self, network: RegionEncoder, images: Int[Tensor, " images"]) -> VisionScores:
        """Score a network on some images."""
        classes = self.region_classes[self.region_row[images]]
        return score_vision(network, self.pixels[images], self.boxes[images], self.is_region[images], classes)
