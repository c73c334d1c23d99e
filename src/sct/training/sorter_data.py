"""What a sorter learns from and is scored on: the controls of a dataset's captions, scrambled."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int

from sct.data.dataset import Dataset
from sct.data.features import Features, StoreFeatures
from sct.data.table import Table
from sct.errors import InputError
from sct.language.vectors import WordVectors, load_vectors
from sct.regions.store import RegionStore
from sct.sorting import OrderScores, Sorter, SortingBatch, joined_scores, order_scores
from sct.training.sorter_recipe import SorterRecipe
from sct.training.sorter_tables import CaptionControls, caption_controls, sorting_table

TRAINING, VALIDATION = "train", "val"
SCORED_AT_ONCE = 2000


class SortingData:
    """Controls whose order is known, in batches."""

    def __init__(
        self, table: Table, controls: CaptionControls, vectors: WordVectors, features: Features | None = None
    ) -> None:
        """Without features everything is laid out at once; with them, a batch when it is asked for."""
        self.controls = controls
        self.num_sets = np.array([len(control) for control in controls.controls], np.int64)
        self._table, self._vectors, self._features = table, vectors, features
        self._whole = None
        if features is None and len(controls):
            self._whole = sorting_table(table, controls.images, controls.controls, vectors)

    def __len__(self) -> int:
        """Count the controls."""
        return len(self.controls)

    def batch(self, numbers: Int[np.ndarray, " examples"], scramble: np.random.Generator) -> SortingBatch:
        """Some controls, their sets in random order."""
        if self._whole is not None:
            return self._whole.batch(numbers, scramble)
        some = self.controls.some(numbers)
        table = sorting_table(self._table, some.images, some.controls, self._vectors, features=self._features)
        return table.batch(np.arange(len(numbers)), scramble)

    def batches(
        self, size: int, random: np.random.Generator, numbers: Int[np.ndarray, " chosen"] | None = None
    ) -> Iterator[SortingBatch]:
        """All controls, or the chosen ones, batch after batch in the order they are in."""
        order = np.arange(len(self)) if numbers is None else numbers
        for start in range(0, len(order), size):
            yield self.batch(order[start : start + size], random)


@dataclass(frozen=True, slots=True, eq=False)
class SorterLessons:
    """All that a recipe's run reads."""

    dataset: Dataset
    vectors: WordVectors
    feature_size: int | None
    """Of a region's features; none: class and geometry alone."""
    train: SortingData
    held_out: SortingData
    """Of other images of the training split: the best epoch is the best on these."""
    val: SortingData | None
    """None where the dataset has no such split, or nothing to sort in it."""


def open_lessons(recipe: SorterRecipe) -> SorterLessons:
    """Read the dataset and lay its controls out."""
    dataset = Dataset.open(Path(recipe.data))
    vectors = _vectors(recipe, dataset)
    store = RegionStore.open(Path(recipe.features)) if recipe.features else None
    features = None if store is None else StoreFeatures(store, dataset.table)
    train = caption_controls(dataset.table, TRAINING, max_sets=recipe.max_sets)
    is_held_out = np.isin(train.images, _held_out_images(train.images, recipe.holdout))
    parts = [train.some(np.flatnonzero(is_held_out == held_out)) for held_out in (False, True)]
    if not all(len(part) for part in parts):
        raise InputError(
            f"{recipe.data} has {len(train)} training captions that name two region sets or more, of which "
            f"{len(parts[1])} are held out: wanted some on both sides; use more data, or change holdout"
        )
    of_val = None
    if VALIDATION in dataset.table.splits:
        of_val = caption_controls(dataset.table, VALIDATION, max_sets=recipe.max_sets)
    return SorterLessons(
        dataset,
        vectors,
        None if store is None else store.feature_size,
        SortingData(dataset.table, parts[0], vectors, features),
        SortingData(dataset.table, parts[1], vectors, features),
        SortingData(dataset.table, of_val, vectors, features) if of_val else None,
    )


@torch.no_grad()
def score_sorter(
    sorter: Sorter,
    data: SortingData,
    device: torch.device | str = "cpu",
    numbers: Int[np.ndarray, " chosen"] | None = None,
) -> OrderScores:
    """How right the orders are that a sorter finds, over all controls or the chosen ones."""
    # Always the same scrambling: it must not make one sorter look better than another.
    batches = data.batches(SCORED_AT_ONCE, np.random.default_rng(0), numbers)
    moved = (batch.to(device) for batch in batches)
    return joined_scores([order_scores(sorter.order(batch.inputs), batch.truth) for batch in moved])


def _held_out_images(images: Int[np.ndarray, " controls"], share: float) -> Int[np.ndarray, " held_out"]:
    """Some images, the same for all seeds and kinds of sorters."""
    different = np.unique(images)
    number = min(max(round(share * len(different)), 1), len(different))
    return np.random.default_rng(0).permutation(different)[:number]


def _vectors(recipe: SorterRecipe, dataset: Dataset) -> WordVectors:
    """Vectors of the words that class names may have: few enough to be saved with the sorter."""
    if not recipe.vectors:
        if dataset.nouns is None:
            raise InputError(
                f"{recipe.data} has no noun vectors: prepare it again, or name a file of word vectors with vectors=FILE"
            )
        nouns = dataset.nouns.known()
        return WordVectors(nouns.vectors_name, {noun: row for row, noun in enumerate(nouns.nouns)}, nouns.units)
    all_vectors = load_vectors(None if recipe.vectors == "glove" else Path(recipe.vectors))
    of_classes = {word for name in dataset.table.classes for word in name.split()}
    words = sorted(word for word in of_classes | set(dataset.table.words) if word in all_vectors)
    matrix = np.asarray(all_vectors.matrix[[all_vectors.rows[word] for word in words]], np.float32)
    return WordVectors(all_vectors.name, {word: row for row, word in enumerate(words)}, matrix)
