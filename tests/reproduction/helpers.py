"""Configs and rows of a small table, and results with made-up figures."""

from dataclasses import replace
from pathlib import Path

from sct.reproduction.claims import Reproduction, compare
from sct.reproduction.plan import ReproductionConfig
from sct.reproduction.published import TABLES, PublishedTable, RowKey
from sct.reproduction.results import NOT_RUN, RowResult, RunResult

RECIPES = Path(__file__).parents[2] / "recipes"
SMALL = (
    "cross_entropy:model.word_size=9",
    "cross_entropy:model.hidden_size=8",
    "cross_entropy:model.attention_size=6",
    "cross_entropy:model.feature_size=8",
    "cross_entropy:model.min_count=1",
    "examples.max_length=8",
    "batch_size=4",
    "max_steps=2",
)
"""Overrides with which any captioner recipe trains on the dataset of ``make_noun_dataset`` within seconds."""


def discard(line: str) -> None:
    """Log nothing."""


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
