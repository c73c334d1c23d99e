"""Figures as a table for people, and reasons for missing ones."""

import sys
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from sct.evaluation.judgement import Judgement
from sct.metrics.report import METRICS, TABLE_METRICS

_MISSING = "-"


def chosen_metrics(names: str | None) -> tuple[str, ...]:
    """Metrics of a command line: names with commas between them, all, or those of the paper's tables."""
    if names is None:
        return TABLE_METRICS
    return METRICS if names == "all" else tuple(name.strip() for name in names.split(",") if name.strip())


def print_reasons(judgement: Judgement) -> None:
    """Say on stderr why figures are missing, a line each."""
    for name, reason in judgement.unavailable().items():
        print(f"sct: {name} is missing: {' '.join(reason.split())}", file=sys.stderr)


def print_table(title: str, judgement: Judgement) -> None:
    """Print figures as the paper's tables do."""
    console = Console(width=None if Console().is_terminal else 110)
    report, several = judgement.report, judgement.diversity
    grid = _grid(title, {name: _figure(value, name) for name, value in report.in_paper_units().items()})
    if report.vectors is not None:
        grid.caption = f"NW and IoU compare nouns by {report.vectors}"
    console.print(grid)
    if several is not None:
        about = f"{several.images:,} images, {several.captions_per_image:.3g} captions each"
        console.print(_grid(f"Best caption by each metric: {about}", _figures(several.oracle)))
        console.print(_grid("Diversity", {name: _figure(value, "NW") for name, value in several.diversity.items()}))


def _figures(values: Any) -> dict[str, str]:
    return {name: _figure(value, name) for name, value in values.items()}


def _figure(value: float | None, name: str) -> str:
    if value is None:
        return _MISSING
    if name == "groups":
        return f"{int(value):,}"
    return f"{value:.3f}" if name == "NW" else f"{value:.1f}"


def _grid(title: str, figures: dict[str, str]) -> Grid:
    grid = Grid(title=title)
    for heading in figures:
        grid.add_column(heading, justify="right")
    grid.add_row(*figures.values())
    return grid
