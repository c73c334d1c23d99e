"""Score tables on a terminal, and reasons for missing scores."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table as TextTable

from sct.cli.printing import print_message
from sct.evaluation.control_fidelity import FidelityResult
from sct.evaluation.scoring import EvaluationResult
from sct.evaluation.sharded_scores import MergedScores
from sct.metrics.report import METRICS, TABLE_METRICS

_MISSING = "-"


def parse_metrics(names: str | None) -> tuple[str, ...]:
    """Parse ``--metrics``: comma-separated names, "all", or None for the metrics of the paper's tables."""
    if names is None:
        return TABLE_METRICS
    return METRICS if names == "all" else tuple(name.strip() for name in names.split(",") if name.strip())


def print_missing(result: EvaluationResult | MergedScores) -> None:
    """Print the reason for each missing score to stderr, one line each."""
    for name, reason in result.unavailable.items():
        print_message(f"{name} is missing: {reason}")


def print_result(title: str, result: EvaluationResult | MergedScores) -> None:
    """Print the scores as tables."""
    console = Console(width=None if Console().is_terminal else 110, highlight=False, markup=False)

    def print_row(heading: str, scores: Mapping[str, float | None]) -> None:
        # Not the title of the table, which would wrap at the width of a narrow table.
        console.print(heading, soft_wrap=True)
        table = TextTable()
        for name in scores:
            table.add_column(name, justify="right")
        table.add_row(*(_format(value, name) for name, value in scores.items()))
        console.print(table)

    num_groups = result.num_groups if isinstance(result, MergedScores) else len(result.predictions)
    print_row(title, {**result.scores, "groups": num_groups})
    if result.vectors is not None:
        console.print(f"NW and IoU compare nouns by {result.vectors}", soft_wrap=True)
    if result.oracle is not None and result.diversity is not None:
        diversity = dict(result.diversity)
        images, per_image = diversity.pop("images") or 0, diversity.pop("captions_per_image") or 0
        print_row(f"Best caption by each metric: {images:,} images, {per_image:.3g} captions per image", result.oracle)
        print_row("Diversity", diversity)
    if isinstance(result, EvaluationResult) and result.grounding is not None:
        print_row("Grounding of noun chunks", result.grounding)


def print_fidelity(title: str, results: Sequence[FidelityResult]) -> None:
    """Print the fidelity of each kind of control as a table."""
    console = Console(width=None if Console().is_terminal else 110, highlight=False, markup=False)
    console.print(title, soft_wrap=True)
    table = TextTable()
    for name in ("control", "named", "described", "NW", "extra", "C", "captions"):
        table.add_column(name, justify="left" if name == "control" else "right")
    for result in results:
        scores = result.fidelity
        shares = [f"{value:.3f}" for value in (scores.named, scores.described, scores.order, scores.extra)]
        cider = _MISSING if result.cider is None else f"{result.cider:.1f}"
        table.add_row(result.kind, *shares, cider, f"{scores.num_captions:,}")
    console.print(table)


def _format(value: float | None, name: str) -> str:
    if value is None:
        return _MISSING
    if name == "groups":
        return f"{int(value):,}"
    return f"{value:.1f}" if name in METRICS and name != "NW" else f"{value:.3f}"
