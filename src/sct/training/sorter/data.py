"""Training and validation data of sorters: the controls of a dataset's captions, shuffled."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int

from sct.captioner.bundle import vision_file
from sct.data.dataset import Dataset
from sct.data.features import CachedFeatures, Features, ImageFeatures, StoreFeatures
from sct.data.table import TRAINING_SPLIT, VALIDATION_SPLIT, Table
from sct.errors import InputError
from sct.language.word_vectors import WordVectors, load_vectors
from sct.regions.sharded_store import open_store
from sct.sorting.batches import CaptionControls, SorterBatch, extract_caption_controls, table_from_dataset
from sct.sorting.interface import Sorter
from sct.sorting.metrics import OrderScores, merge_scores, score_orders
from sct.training.captioner.image_features import ImageFeatureExtractor
from sct.training.config import split_list
from sct.training.sorter.config import SorterRecipe
from sct.vision.encoder import load_vision

SCORING_BATCH_SIZE = 2000


class SorterDataLoader:
    """Shuffled batches of controls whose order is known."""

    def __init__(
        self, table: Table, controls: CaptionControls, vectors: WordVectors, features: Features | None = None
    ) -> None:
        """Build one table of all controls; with features, a table per batch."""
        self.controls = controls
        self.num_sets = np.array([len(control) for control in controls.controls], np.int64)
        self._table, self._vectors, self._features = table, vectors, features
        self._all_controls = None
        if features is None and len(controls):
            self._all_controls = table_from_dataset(table, controls.images, controls.controls, vectors)

    def __len__(self) -> int:
        """Number of controls."""
        return len(self.controls)

    def batch(self, rows: Int[np.ndarray, " examples"], shuffle: np.random.Generator) -> SorterBatch:
        """Some controls, with their sets shuffled."""
        if self._all_controls is not None:
            return self._all_controls.batch(rows, shuffle)
        some = self.controls.select(rows)
        table = table_from_dataset(self._table, some.images, some.controls, self._vectors, features=self._features)
        return table.batch(np.arange(len(rows)), shuffle)

    def batches(
        self, batch_size: int, shuffle: np.random.Generator, rows: Int[np.ndarray, " selected"] | None = None
    ) -> Iterator[SorterBatch]:
        """All controls, or those of ``rows``, in this order."""
        rows = np.arange(len(self)) if rows is None else rows
        for start in range(0, len(rows), batch_size):
            yield self.batch(rows[start : start + batch_size], shuffle)


@dataclass(frozen=True, slots=True, eq=False)
class SorterData:
    """Data of a run."""

    dataset: Dataset
    vectors: WordVectors
    feature_size: int | None
    """Size of region features; None: class and geometry only."""
    train: SorterDataLoader
    held_out: SorterDataLoader
    """Other images of the training split, on which the best epoch is selected."""
    val: SorterDataLoader | None
    """None if the dataset has no val split with controls to sort."""


def load_sorter_data(recipe: SorterRecipe) -> SorterData:
    """Load the dataset of a recipe and split its controls."""
    dataset = Dataset.open(Path(recipe.data))
    vectors = _load_vectors(recipe, dataset)
    source = _load_features(recipe, dataset)
    features = None if source is None else source.features
    controls = extract_caption_controls(dataset.table, TRAINING_SPLIT, max_sets=recipe.max_sets)
    is_held_out = np.isin(controls.images, _held_out_images(controls.images, recipe.holdout))
    train, held_out = (controls.select(np.flatnonzero(is_held_out == value)) for value in (False, True))
    if not len(train) or not len(held_out):
        raise InputError(
            f"{recipe.data} has {len(controls)} training captions that mention two region sets or more, of which "
            f"{len(held_out)} are held out, expected some on both sides: use more data, or change holdout"
        )
    val = None
    if VALIDATION_SPLIT in dataset.table.splits:
        val = extract_caption_controls(dataset.table, VALIDATION_SPLIT, max_sets=recipe.max_sets)
    return SorterData(
        dataset,
        vectors,
        None if source is None else source.size,
        SorterDataLoader(dataset.table, train, vectors, features),
        SorterDataLoader(dataset.table, held_out, vectors, features),
        SorterDataLoader(dataset.table, val, vectors, features) if val else None,
    )


@torch.no_grad()
def score_sorter(
    sorter: Sorter,
    data: SorterDataLoader,
    device: torch.device | str = "cpu",
    rows: Int[np.ndarray, " selected"] | None = None,
) -> OrderScores:
    """Accuracy and tau of a sorter on all controls, or on those of ``rows``."""
    # The same shuffle for every sorter, so that scores are comparable.
    batches = data.batches(SCORING_BATCH_SIZE, np.random.default_rng(0), rows)
    on_device = (batch.to(device) for batch in batches)
    return merge_scores([score_orders(sorter.order(batch.inputs), batch.target) for batch in on_device])


class _SizedFeatures(NamedTuple):
    """Features of a dataset's regions, and their size."""

    features: Features
    size: int


def _load_features(recipe: SorterRecipe, dataset: Dataset) -> _SizedFeatures | None:
    """Features of a region store, or extracted once from the images; None: class and geometry only."""
    if recipe.features:
        store = open_store(Path(recipe.features))
        return _SizedFeatures(StoreFeatures(store, dataset.table), store.feature_size)
    if not recipe.vision:
        return None
    encoder = load_vision(vision_file(Path(recipe.vision)))
    extract = ImageFeatureExtractor(encoder, dataset, split_list(recipe.images), torch.device(recipe.device))
    images = range(len(dataset))
    found = extract(images)
    on_cpu = ImageFeatures(found.regions.cpu(), found.first_row, found.image.cpu())
    return _SizedFeatures(CachedFeatures(on_cpu, images), encoder.feature_size)


def _held_out_images(images: Int[np.ndarray, " controls"], fraction: float) -> Int[np.ndarray, " held_out"]:
    """Random images, the same for all seeds and kinds of sorters."""
    distinct = np.unique(images)
    count = min(max(round(fraction * len(distinct)), 1), len(distinct))
    return np.random.default_rng(0).permutation(distinct)[:count]


def _load_vectors(recipe: SorterRecipe, dataset: Dataset) -> WordVectors:
    """Vectors of the words that class names may contain, few enough to save with the sorter."""
    if not recipe.vectors:
        if dataset.nouns is None:
            raise InputError(f"{recipe.data} has no noun vectors: prepare it again, or name a file, vectors=FILE")
        nouns = dataset.nouns.with_vectors()
        return WordVectors(nouns.vectors_name, {noun: row for row, noun in enumerate(nouns.nouns)}, nouns.units)
    vectors = load_vectors(None if recipe.vectors == "glove" else Path(recipe.vectors))
    class_words = {word for name in dataset.table.classes for word in name.split()}
    words = sorted(word for word in class_words | set(dataset.table.words) if word in vectors)
    matrix = np.asarray(vectors.matrix[[vectors.rows[word] for word in words]], np.float32)
    return WordVectors(vectors.name, {word: row for row, word in enumerate(words)}, matrix)
