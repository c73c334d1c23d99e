"""Rows with figures made up, for what comes after the measuring."""

from dataclasses import replace
from pathlib import Path

from sct.reproduction.figures import NOT_RUN, RowResult, RunResult
from sct.reproduction.published import TABLES, PublishedTable, RowKey
from sct.reproduction.request import Request
from sct.reproduction.runs import Workplace
from sct.reproduction.table import Reproduction, compared

RECIPES = Path(__file__).parents[2] / "recipes"


def some_rows(name: str, systems: tuple[str, ...], stages: tuple[str, ...] = ("words",)) -> PublishedTable:
    """A table of the paper with some of its rows."""
    table = TABLES[name]
    sections = [
        replace(
            section, rows=tuple(row for row in section.rows if row.key.system in systems and row.key.stage in stages)
        )
        for section in table.sections
    ]
    return replace(table, sections=tuple(section for section in sections if section.rows))


def row_result(key: RowKey, *runs: dict[str, float | None]) -> RowResult:
    """A row that was measured so; without figures it was not run."""
    measured = tuple(RunResult(name=f"run{number}", figures=figures) for number, figures in enumerate(runs))
    return RowResult(key, measured or (RunResult(name="run", absent=NOT_RUN),))


def made_up(
    table: PublishedTable, figures: dict[tuple[str, str], list[dict[str, float | None]]], data: Path = Path("some_data")
) -> Reproduction:
    """A table in which the rows of these systems and stages have these figures, run by run."""
    results = {row.key: row_result(row.key, *figures.get((row.key.system, row.key.stage), [])) for row in table.rows()}
    place = Workplace(data=data, runs=Path("runs"), recipes=RECIPES)
    return compared(table, Request(place=place, split="val"), table.metrics, results)
