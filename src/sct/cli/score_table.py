"""Figures as a table for people, and reasons for missing ones."""

import sys
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table as Grid

from sct.evaluation.scoring import EvaluationResult
from sct.metrics.report import METRICS, TABLE_METRICS

_MISSING = "-"


def chosen_metrics(names: str | None) -> tuple[str, ...]:
    """Metrics of a command line: names with commas between them, all, or those of the paper's tables."""
    if names is None:
        return TABLE_METRICS
    return METRICS if names == "all" else tuple(name.strip() for name in names.split(",") if name.strip())


def print_reasons(judgement: EvaluationResult) -> None:
    """Say on stderr why figures are missing, a line each."""
    for name, reason in judgement.unavailable().items():
        print(f"sct: {name} is missing: {' '.join(reason.split())}", file=sys.stderr)


def print_table(title: str, judgement: EvaluationResult) -> None:
    """Print figures as the paper's tables do."""
    console = Console(width=None if Console().is_terminal else 110, highlight=False, markup=False)

    def show(heading: str, figures: dict[str, str]) -> None:
        # Not the grid's own title, which would be broken to the width of a narrow grid.
        console.print(heading, soft_wrap=True)
        grid = Grid()
        for name in figures:
            grid.add_column(name, justify="right")
        grid.add_row(*figures.values())
        console.print(grid)

    report, several = judgement.report, judgement.diversity
    show(title, _figures(report.in_paper_units()))
    if report.vectors is not None:
        console.print(f"NW and IoU compare nouns by {report.vectors}", soft_wrap=True)
    if several is not None:
        about = f"{several.images:,} images, {several.captions_per_image:.3g} captions each"
        show(f"Best caption by each metric: {about}", _figures(several.oracle))
        show("Diversity", _figures(several.diversity))
    if judgement.grounding is not None:
        show("Grounding: do chunks name their regions?", _figures(judgement.grounding.figures))


def _figures(values: Mapping[str, float | None]) -> dict[str, str]:
    return {name: _figure(value, name) for name, value in values.items()}


def _figure(value: float | None, name: str) -> str:
    if value is None:
        return _MISSING
    if name == "groups":
        return f"{int(value):,}"
    return f"{value:.1f}" if name in METRICS and name != "NW" else f"{value:.3f}"
