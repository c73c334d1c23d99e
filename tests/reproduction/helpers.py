"""A dataset of a dozen images, some rows of a table on it, and results with made-up figures."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from sct.data.dataset import Manifest, write_dataset
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.table import build_table, merge_tables
from sct.language.noun_table import NounTable
from sct.regions import Box, Region
from sct.reproduction.claims import Reproduction, compare
from sct.reproduction.plan import ReproductionConfig
from sct.reproduction.published import TABLES, PublishedTable, RowKey
from sct.reproduction.results import NOT_RUN, RowResult, RunResult

RECIPES = Path(__file__).parents[2] / "recipes"
NOUNS = ("dog", "cat", "ball", "tree", "boy")
SMALL = (
    "cross_entropy:model.word_size=8",
    "cross_entropy:model.hidden_size=8",
    "cross_entropy:model.attention_size=6",
    "cross_entropy:model.feature_size=8",
    "cross_entropy:model.min_count=1",
    "examples.max_length=8",
    "batch_size=4",
    "max_steps=2",
)
"""Overrides with which any captioner recipe trains on the dataset in a moment."""


def discard(line: str) -> None:
    """Log nothing."""


def write_tiny_dataset(
    folder: Path, num_sets: int = 2, source: str = "COCO layout", image_folder: Path | None = None
) -> Path:
    """Write a dataset; each image has ``num_sets`` regions and two captions, which name them in opposite orders.

    With ``image_folder`` single-colour images are written there.
    """
    images = []
    for number in range(12):
        names = [NOUNS[(number + index) % 5] for index in range(num_sets)]
        regions = tuple(
            Region(Box(index / 20, 0.2, index / 20 + 0.1, 0.3 + 0.05 * (number % 7)), name)
            for index, name in enumerate(names)
        )
        captions = []
        for order in (range(num_sets), range(num_sets - 1, -1, -1)):
            words = tuple(word for index in order for word in ("a", names[index]))
            chunks = tuple(Chunk(names[index], (index,)) for index in order)
            slots = tuple(slot for slot in range(num_sets) for _ in range(2))
            captions.append(Caption(" ".join(words), words, slots, chunks))
        if image_folder is not None:
            image_folder.mkdir(exist_ok=True)
            Image.new("RGB", (30, 30), (20 * number, 100, 250 - 20 * number)).save(image_folder / f"{number}.png")
        images.append(
            AnnotatedImage(
                image_id=f"{number}",
                split="val" if number % 4 == 3 else "train",
                width=1,
                height=1,
                regions=regions,
                captions=tuple(captions),
                file=None if image_folder is None else f"{number}.png",
            )
        )
    table, vocabulary = merge_tables([build_table(images)])
    manifest = Manifest(
        source=source,
        mode="paper",
        settings={},
        image_folder=None if image_folder is None else str(image_folder),
        num_images=12,
        num_captions=24,
    )
    nouns = NounTable.from_vectors(NOUNS, np.random.default_rng(1).normal(size=(5, 4)), "four random numbers")
    write_dataset(folder, table, vocabulary, manifest, nouns)
    return folder


def select_rows(name: str, systems: tuple[str, ...], stages: tuple[str, ...] = ("cross_entropy",)) -> PublishedTable:
    """A table of the paper with some of its rows."""
    table = TABLES[name]
    sections = [
        replace(
            section, rows=tuple(row for row in section.rows if row.key.system in systems and row.key.stage in stages)
        )
        for section in table.sections
    ]
    return replace(table, sections=tuple(section for section in sections if section.rows))


METRICS = ("B4", "R", "C")
TABLE = select_rows("table2", ("ours", "controllable_up_down"))
OURS, BASELINE = "coco_layout/cross_entropy", "coco_layout/cross_entropy_controllable_up_down"


def make_config(folder: Path, data: Path, **changes) -> ReproductionConfig:
    """Config with the run directories below a test's folder."""
    options = {"recipes": RECIPES, "overrides": SMALL, "device": "cpu", "seeds": 1, "metrics": METRICS}
    return ReproductionConfig(**({"data": data, "runs": folder / "runs"} | options | changes))


def first_figures(result: Reproduction) -> dict[str, dict[str, float | None]]:
    """Figures of the first run of each row, by system."""
    return {row.key.system: result.results[row.key].runs[0].figures for row in result.table.rows()}


def keep_scores_only(folder: Path) -> None:
    """Remove bundles, captions and logs of a run."""
    kept = {"recipe.toml", "reproduction.json", "provenance.json", "scores.json"}
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.name not in kept:
            path.unlink()


def row_result(key: RowKey, *runs: dict[str, float | None]) -> RowResult:
    """A row with these figures, run by run; without any it was not run."""
    measured = tuple(RunResult(name=f"run{number}", figures=figures) for number, figures in enumerate(runs))
    return RowResult(key, measured or (RunResult(name="run", missing_reason=NOT_RUN),))


def make_reproduction(
    table: PublishedTable, figures: dict[tuple[str, str], list[dict[str, float | None]]], data: str = "some_data"
) -> Reproduction:
    """A reproduced table with made-up figures by system and stage, run by run."""
    results = {row.key: row_result(row.key, *figures.get((row.key.system, row.key.stage), [])) for row in table.rows()}
    return compare(table, data, "val", table.metrics, results)
