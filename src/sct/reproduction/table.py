"""One table made again: every row measured, ours beside the paper's, the claims judged."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sct.errors import InputError
from sct.reproduction.claims import RowOrder, Verdict, judge_claims, row_orders
from sct.reproduction.figures import Results, RowResult
from sct.reproduction.measuring import measured
from sct.reproduction.published import PublishedTable, Section
from sct.reproduction.request import Request, Say
from sct.reproduction.stand_in import SubstituteDataset


@dataclass(frozen=True, slots=True, eq=False)
class Reproduction:
    """A table of the paper with ours beside it."""

    table: PublishedTable
    data: str
    """Name of the dataset that it was made on."""
    split: str
    """What was measured of it; empty: each row says its own."""
    metrics: tuple[str, ...]
    results: Results
    verdicts: Sequence[Verdict]
    orders: Sequence[RowOrder]

    def measured_on(self, sections: Sequence[Section]) -> list[str]:
        """Names of the datasets that rows of some sections were measured on; the one at hand if none was."""
        runs = [run for section in sections for row in section.rows for run in self.results[row.key].runs]
        return list(dict.fromkeys(run.data for run in runs if run.data)) or [self.data]

    def failures(self) -> dict[str, str]:
        """What went wrong, by the name of the run."""
        return {run.name: run.absent for row in self.results.values() for run in row.runs if run.has_failed}

    def reasons(self) -> dict[str, str]:
        """Why figures are missing of what was measured, by metric."""
        runs = [run for row in self.results.values() for run in row.runs]
        return {metric: reason for run in runs for metric, reason in run.reasons.items()}

    def commands(self) -> list[str]:
        """What somebody would type to have every run, each once, in an order that works."""
        runs = [run for row in self.results.values() for run in row.runs]
        return list(dict.fromkeys(command for run in runs for command in run.commands))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        rows = [
            {
                **row.key._asdict(),
                "published": dict(row.figures),
                "here": {metric: _plain(self.results[row.key], metric) for metric in self.metrics},
                "runs": [asdict(run) for run in self.results[row.key].runs],
            }
            for row in self.table.rows()
        ]
        claims = [
            {
                "claim": verdict.claim.text,
                "published": verdict.claim.published,
                "here": verdict.margin,
                "spread": verdict.spread,
                "holds": verdict.holds,
                "reaches_margin": verdict.reaches_margin,
            }
            for verdict in self.verdicts
        ]
        facts = {"table": self.table.name, "data": self.data, "split": self.split}
        return {**facts, "rows": rows, "claims": claims, "orders": [asdict(order) for order in self.orders]}


def reproduce(table: PublishedTable, request: Request, say: Say) -> Reproduction:
    """Make a table again; ``say`` is told what is being done.

    What is trained, captioned or scored already is taken from the folders of the runs, so it can be stopped at any
    time and called again.
    """
    unknown = [name for name in request.metrics if name not in table.metrics]
    if unknown:
        raise InputError(f"{table.name} has no {unknown[0]!r}: expected some of {', '.join(table.metrics)}")
    metrics = tuple(name for name in table.metrics if not request.metrics or name in request.metrics)
    data = SubstituteDataset.open(request.place.data)
    data.refuse_other_tables(table)
    request = replace(request, split=data.split_for(table, request.split))
    return compared(table, request, metrics, measured(table, request, data, metrics, say))


def compared(table: PublishedTable, request: Request, metrics: tuple[str, ...], results: Results) -> Reproduction:
    """Put what was measured beside the paper's figures."""
    verdicts, orders = judge_claims(table, results), row_orders(table, results)
    return Reproduction(table, request.place.data.name, request.split, metrics, results, verdicts, orders)


def _plain(row: RowResult, metric: str) -> dict[str, Any] | None:
    figure = row.figure(metric)
    return None if figure is None else asdict(figure)
