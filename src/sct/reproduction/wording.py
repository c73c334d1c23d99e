"""A reproduction in words and cells, which Markdown and the page share."""

from collections.abc import Sequence
from dataclasses import dataclass

from sct.reproduction.claims import Verdict
from sct.reproduction.figures import NOT_RUN, RowResult, digits_of, figure_text
from sct.reproduction.published import STAGE_NAMES, Row, Section
from sct.reproduction.table import Reproduction

MISSING = "-"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of texts."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def figure_grids(made: Reproduction) -> list[Grid]:
    """A grid for each section: here, and the paper's figure in brackets."""
    return [_section_grid(made, section) for section in made.table.sections]


def claim_grid(verdicts: Sequence[Verdict]) -> Grid:
    """What the paper claims, with both margins."""
    rows = tuple(
        (verdict.claim.text, margin_text(verdict, verdict.claim.published), _here(verdict), verdict_text(verdict))
        for verdict in verdicts
    )
    return Grid("Claims", ("claim", "margin in the paper", "margin here", "verdict"), rows)


def order_grid(made: Reproduction) -> Grid:
    """The order of rows in the paper and here."""
    rows = tuple(
        (
            ", ".join(filter(None, (order.title, f"by {order.metric}"))),
            order.published,
            "the same" if order.is_same else order.here,
            f"{order.agreeing} of {order.pairs}",
        )
        for order in made.orders
    )
    return Grid("Order of rows", ("rows", "paper, best first", "here", "pairs in the paper's order"), rows)


def summary(made: Reproduction) -> str:
    """One sentence: how much was measured, and how many claims hold."""
    rows = list(made.results.values())
    where = ", ".join(filter(None, (" and ".join(made.measured_on(made.table.sections)), made.split)))
    measured = f"{sum(row.is_measured for row in rows)} of {len(rows)} rows were measured on {where}"
    judged = [verdict for verdict in made.verdicts if verdict.holds is not None]
    if not judged:
        return f"{measured}."
    held = sum(bool(verdict.holds) for verdict in judged)
    reached = sum(bool(verdict.holds and verdict.reaches_margin) for verdict in judged)
    agreeing, pairs = (sum(getattr(order, name) for order in made.orders) for name in ("agreeing", "pairs"))
    return (
        f"{measured}. {held} of {len(judged)} claims that could be judged hold, {reached} of them by the paper's "
        f"margin or more; {agreeing} of {pairs} pairs of rows are in the paper's order."
    )


def remarks(made: Reproduction) -> list[str]:
    """What is missing, and why."""
    found = [f"{metric} is missing: {' '.join(reason.split())}" for metric, reason in made.reasons().items()]
    absent = [run for row in made.results.values() for run in row.runs if run.absent not in ("", NOT_RUN)]
    return found + [f"{run.name}{' failed' * run.has_failed}: {' '.join(run.absent.split())}" for run in absent]


def verdict_text(verdict: Verdict) -> str:
    """Whether a claim holds."""
    if verdict.margin is None:
        return "not judged"
    word = "not held" if not verdict.holds else "held" if verdict.reaches_margin else "held, by less"
    is_close = verdict.spread is not None and abs(verdict.margin) < verdict.spread
    return f"{word} (within the spread of seeds)" if is_close else word


def margin_text(verdict: Verdict, margin: float) -> str:
    """A margin as a share of the lower figure, or as a difference."""
    return f"{100 * margin:+.1f} %" if verdict.claim.is_relative else f"{margin:+.{digits_of(verdict.claim.metric)}f}"


def _here(verdict: Verdict) -> str:
    if verdict.margin is None:
        return MISSING
    text = margin_text(verdict, verdict.margin)
    return text if verdict.spread is None else f"{text} ± {margin_text(verdict, verdict.spread).lstrip('+')}"


def _section_grid(made: Reproduction, section: Section) -> Grid:
    has_stages = section.has_stages  # else its title says it
    first = "split" if made.table.protocol == "statistics" else "system"
    header = (first, *(["stage"] if has_stages else []), "runs", *made.metrics)
    rows = []
    for row in section.rows:
        result = made.results[row.key]
        stage = [STAGE_NAMES[row.key.stage]] if has_stages else []
        rows.append((row.key.name, *stage, _runs(result), *(_cell(row, result, metric) for metric in made.metrics)))
    return Grid(_title(made, section), header, tuple(rows))


def _title(made: Reproduction, section: Section) -> str:
    """With the dataset here, where each section is about one of its own and was measured."""
    is_measured = any(made.results[row.key].is_measured for row in section.rows)
    if len(made.table.data) == 1 or not is_measured:
        return section.title
    return f"{section.title}; here {' and '.join(made.measured_on([section]))}"


def _runs(result: RowResult) -> str:
    done = sum(not run.absent for run in result.runs)
    if done:
        return f"{done}"
    return "failed" if any(run.has_failed for run in result.runs) else NOT_RUN


def _cell(row: Row, result: RowResult, metric: str) -> str:
    figure = result.figure(metric)
    here = MISSING if figure is None else figure_text(figure.mean, metric)
    if figure is not None and figure.spread is not None:
        here += f" ± {figure_text(figure.spread, metric)}"
    return f"{here} ({figure_text(row.figures[metric], metric)})" if metric in row.figures else here
