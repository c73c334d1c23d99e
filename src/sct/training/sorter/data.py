"""What a sorter learns from and is scored on: the controls of a dataset's captions, scrambled.

What a run of a sorter leaves behind: the sorter, by itself or in a bundle, and its scores.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int

from sct.captioner.bundle import add_sorter
from sct.data.dataset import Dataset
from sct.data.features import Features, StoreFeatures
from sct.data.table import Table
from sct.errors import InputError
from sct.language.word_vectors import WordVectors, load_vectors
from sct.regions.store import RegionStore
from sct.sorting import ControlSorter, OrderScores, Sorter, SortingBatch, joined_scores, order_scores, save_sorter
from sct.sorting.batches import CaptionControls, caption_controls, sorting_table
from sct.storage.atomic import atomic_write
from sct.training.checkpoint import TrainState
from sct.training.sorter.config import SorterRecipe

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
class SorterData:
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


def load_sorter_data(recipe: SorterRecipe) -> SorterData:
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
            f"{len(parts[1])} are held out: expected some on both sides; use more data, or change holdout"
        )
    of_val = None
    if VALIDATION in dataset.table.splits:
        of_val = caption_controls(dataset.table, VALIDATION, max_sets=recipe.max_sets)
    return SorterData(
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


BEST, SCORES = "best", "scores.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class SorterReport:
    """How a run ended."""

    out: str
    kind: str
    epochs: int
    seconds: float
    """Spent on training, over all calls."""
    held_out: OrderScores | None
    """Of the best epoch, on images of the training split that were not learned from."""
    val: OrderScores | None
    """The same sorter on the val split; none where there is none, or the run is not done."""
    val_by_sets: dict[int, OrderScores]
    """By how many sets a control has."""
    val_by_people: OrderScores | None
    """Of the captions that people grounded; none where the builder grounded all."""
    finished: bool
    """Whether the recipe is done; if not, --resume goes on."""
    reason: str
    """Why it ended, for people."""


def finish(
    recipe: SorterRecipe,
    lessons: SorterData,
    sorter: ControlSorter,
    held_out: OrderScores | None,
    facts: TrainState,
    reason: str,
) -> SorterReport:
    """Look at the val split, once, and write the sorter."""
    report = report_of(recipe, facts, held_out, finished=True, reason=reason)
    if lessons.val is not None:
        report = replace(report, **_val_scores(sorter.sorter, lessons.val, recipe.device))
    _write_best(Path(recipe.out) / BEST, recipe, sorter, report.val)
    with atomic_write(Path(recipe.out) / SCORES) as file:
        file.write(json.dumps(asdict(report), indent=1).encode("utf-8"))
    return report


def _val_scores(sorter: Sorter, data: SortingData, device: str) -> dict[str, Any]:
    def scores(chosen: Bool[np.ndarray, " controls"]) -> OrderScores:
        return score_sorter(sorter, data, device, np.flatnonzero(chosen))

    human_grounded = data.controls.human_grounded
    return {
        "val": score_sorter(sorter, data, device),
        "val_by_sets": {sets: scores(data.num_sets == sets) for sets in np.unique(data.num_sets).tolist()},
        "val_by_people": scores(human_grounded) if human_grounded.any() else None,
    }


def report_of(
    recipe: SorterRecipe,
    facts: TrainState,
    held_out: OrderScores | None,
    *,
    finished: bool,
    reason: str,
) -> SorterReport:
    """What can be said before the val split is looked at."""
    return SorterReport(
        out=recipe.out,
        kind=recipe.kind,
        epochs=facts.epoch,
        seconds=facts.seconds,
        held_out=held_out,
        val=None,
        val_by_sets={},
        val_by_people=None,
        finished=finished,
        reason=reason,
    )


def _write_best(best: Path, recipe: SorterRecipe, sorter: ControlSorter, val: OrderScores | None) -> None:
    """Write the sorter, or the bundle with it, beside its place and move it there whole."""
    about: dict[str, str | int | float | bool] = {"data": Path(recipe.data).name, "seed": recipe.seed}
    if val is not None:
        about |= {"val_accuracy": 100 * val.accuracy, "val_tau": val.tau}
    part = best.with_name(f".{best.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    if recipe.start:
        add_sorter(Path(recipe.start), sorter, part, provenance=about)
    else:
        save_sorter(part, sorter, provenance=about)
    shutil.rmtree(best, ignore_errors=True)
    part.rename(best)
