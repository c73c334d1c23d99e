"""Compare results with the published figures: which claims of the paper hold, and in which order rows are.

A claim is a margin: one row above another in one metric. It holds if the margin here is larger than the spread of
seeds, the standard deviation of the margin; whether it is as large as the paper's is reported separately. With one seed
on either side there is no spread and no verdict. Only margins that the paper's own figures show are claims.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, pairwise
from math import hypot
from typing import Any, Literal

from sct.reproduction.published import DETERMINISTIC, OURS, STAGE_NAMES, VERSIONS, PublishedTable, Row, RowKey, Section
from sct.reproduction.results import Figure, Results, RowResult

_ABSOLUTE = frozenset({"NW", "IoU", "accuracy", "tau"})
"""Metrics whose margins are differences; other margins are relative to the lower figure."""
_PROPOSED = (OURS, "ours_as_printed", "sinkhorn", "sinkhorn_as_printed")
"""Systems that the paper proposes, and claims are about."""
_NO_BASELINES = frozenset(_PROPOSED) | frozenset(VERSIONS[OURS])
Outcome = Literal["held", "not held", "within the spread of seeds", "one seed", "not measured"]


@dataclass(frozen=True, slots=True)
class Claim:
    """One row above another."""

    metric: str
    better: Row
    worse: Row

    @property
    def text(self) -> str:
        """The claim as a phrase."""
        one, other = self.better.key, self.worse.key
        if one.system == other.system:
            return f"{one.name}: {STAGE_NAMES[one.stage]} above {STAGE_NAMES[other.stage]} in {self.metric}"
        stage = f" ({STAGE_NAMES[one.stage]})" if one.stage and one.stage == other.stage else ""
        return f"{one.name} above {other.name} in {self.metric}{stage}"

    @property
    def is_relative(self) -> bool:
        """Whether its margin is relative to the lower figure."""
        return self.metric not in _ABSOLUTE

    @property
    def published(self) -> float:
        """The paper's margin."""
        return self._margin(self.better.figures[self.metric], self.worse.figures[self.metric])

    def check(self, results: Results) -> "Verdict":
        """Compute the margin here."""
        better, worse = (results[row.key].figure(self.metric) for row in (self.better, self.worse))
        if better is None or worse is None or (self.is_relative and worse.mean <= 0):
            return Verdict(self, None, None)
        return Verdict(self, self._margin(better.mean, worse.mean), self._std(better, worse))

    def _margin(self, better: float, worse: float) -> float:
        return better / worse - 1 if self.is_relative else better - worse

    def _std(self, better: Figure, worse: Figure) -> float | None:
        """Standard deviation of the margin over seeds; None if a row has a single run of several possible ones."""
        stds = [_std(better, self.better), _std(worse, self.worse)]
        if stds[0] is None or stds[1] is None:
            return None
        if not self.is_relative:
            return hypot(stds[0], stds[1])
        return hypot(stds[0] / worse.mean, stds[1] * better.mean / worse.mean**2)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim and the margin here."""

    claim: Claim
    margin: float | None
    """None if a row was not measured, or if the margin would be relative to 0 or less."""
    std: float | None
    """Spread of seeds: standard deviation of the margin; None with one seed on either side."""

    @property
    def outcome(self) -> Outcome:
        """Whether the claim holds beyond the spread of seeds, or why that is unknown."""
        if self.margin is None:
            return "not measured"
        if self.std is None:
            return "one seed"
        if self.margin > self.std:
            return "held"
        return "not held" if self.margin < -self.std or self.std == 0 else "within the spread of seeds"

    @property
    def holds(self) -> bool | None:
        """Whether the better row is above here too, beyond the spread of seeds; None if unknown or undecided."""
        return {"held": True, "not held": False}.get(self.outcome)

    @property
    def is_above(self) -> bool | None:
        """Whether the mean of the better row is above here too, whatever the spread; None if not measured."""
        return None if self.margin is None else self.margin > 0

    @property
    def reaches_margin(self) -> bool | None:
        """Whether the margin is at least the paper's; None if unknown."""
        return None if self.margin is None else self.margin >= self.claim.published


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Rows of a section ranked by one metric, in the paper and here; only rows that both have."""

    title: str
    metric: str
    published: str
    """Best first, such as "Ours > POS = AG-CVAE"."""
    here: str
    agreeing: int
    """Pairs of rows in the paper's order; ties here do not agree, ties in the paper are not counted."""
    pairs: int

    @property
    def is_same(self) -> bool:
        """Whether every pair is in the paper's order."""
        return self.agreeing == self.pairs


@dataclass(frozen=True, slots=True, eq=False)
class Reproduction:
    """A reproduced table: results, verdicts on claims, and orders of rows."""

    table: PublishedTable
    data: str
    """Name of the dataset at hand."""
    split: str
    """Evaluated split; empty if rows are splits."""
    metrics: tuple[str, ...]
    results: Results
    verdicts: Sequence[Verdict]
    orders: Sequence[RowOrder]
    differences: Sequence[str] = ()
    """Reasons why statistics differ from the paper's."""

    def measured_on(self, sections: Sequence[Section]) -> list[str]:
        """Names of the datasets that rows of some sections were measured on; the one at hand if none was."""
        runs = [run for section in sections for row in section.rows for run in self.results[row.key].runs]
        return list(dict.fromkeys(run.data for run in runs if run.data)) or [self.data]

    def failures(self) -> dict[str, str]:
        """Reasons of failed runs, by run name."""
        runs = [run for row in self.results.values() for run in row.runs]
        return {run.name: run.missing_reason for run in runs if run.failed}

    def unavailable(self) -> dict[str, str]:
        """Reasons of missing figures of measured runs, by metric."""
        runs = [run for row in self.results.values() for run in row.runs]
        return {metric: reason for run in runs for metric, reason in run.unavailable.items()}

    def commands(self) -> list[str]:
        """Commands that train all runs, each once, in an order that works."""
        runs = [run for row in self.results.values() for run in row.runs]
        return list(dict.fromkeys(command for run in runs for command in run.commands))

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON values."""
        rows = [
            {
                **row.key._asdict(),
                "published": dict(row.figures),
                "here": {metric: _figure_dict(self.results[row.key], metric) for metric in self.metrics},
                "runs": [asdict(run) for run in self.results[row.key].runs],
            }
            for row in self.table.rows()
        ]
        claims = [
            {
                "claim": verdict.claim.text,
                "published": verdict.claim.published,
                "here": verdict.margin,
                "std": verdict.std,
                "holds": verdict.holds,
                "outcome": verdict.outcome,
                "reaches_margin": verdict.reaches_margin,
            }
            for verdict in self.verdicts
        ]
        names = {"table": self.table.name, "data": self.data, "split": self.split}
        orders = [asdict(order) for order in self.orders]
        return {**names, "rows": rows, "claims": claims, "orders": orders, "differences": list(self.differences)}


def compare(table: PublishedTable, data: str, split: str, metrics: tuple[str, ...], results: Results) -> Reproduction:
    """Compare results with the published figures."""
    verdicts = [claim.check(results) for claim in find_claims(table)]
    return Reproduction(table, data, split, metrics, results, verdicts, _rank_rows(table, results))


def find_claims(table: PublishedTable) -> list[Claim]:
    """Claims of a table: a proposed system is above every baseline, and improves with each stage."""
    claims = [claim for section in table.sections for claim in _above_baselines(section, table.headline)]
    for system in _PROPOSED:
        claims += _stage_gains([row for row in table.rows() if row.key.system == system], table.headline)
    return [claim for claim in claims if claim.published > 0]


def _above_baselines(section: Section, metrics: Sequence[str]) -> Iterator[Claim]:
    """Claims against each baseline, the closest (last) row first."""
    for system in _PROPOSED:
        proposed = next((row for row in section.rows if row.key.system == system), None)
        for baseline in reversed(section.rows):
            if proposed is not None and baseline.key.system not in _NO_BASELINES and baseline.figures:
                yield from (Claim(metric, proposed, baseline) for metric in metrics)


def _stage_gains(rows: Sequence[Row], metrics: Sequence[str]) -> Iterator[Claim]:
    for before, after in pairwise(rows):
        is_next_stage = before.key.stage and before.key.data == after.key.data and before.key.stage != after.key.stage
        if is_next_stage and before.figures and after.figures:
            yield from (Claim(metric, after, before) for metric in metrics)


def _rank_rows(table: PublishedTable, results: Results) -> list[RowOrder]:
    orders = [_rank_section(section, metric, results) for section in table.sections for metric in table.headline]
    return [order for order in orders if order.pairs]


def _rank_section(section: Section, metric: str, results: Results) -> RowOrder:
    here = {row.key: figure.mean for row in section.rows if (figure := results[row.key].figure(metric)) is not None}
    rows = [row for row in section.rows if row.key in here and metric in row.figures and not row.is_version]
    pairs = [(one, other) for one, other in combinations(rows, 2) if one.figures[metric] != other.figures[metric]]
    agreeing = sum(
        (one.figures[metric] - other.figures[metric]) * (here[one.key] - here[other.key]) > 0 for one, other in pairs
    )
    return RowOrder(
        section.title,
        metric,
        _format_ranking({row.key: row.figures[metric] for row in rows}),
        _format_ranking({row.key: here[row.key] for row in rows}),
        agreeing,
        len(pairs),
    )


def _format_ranking(figures: Mapping[RowKey, float]) -> str:
    """Names of rows, best first."""
    if not figures:
        return ""
    best, *others = sorted(figures, key=lambda key: -figures[key])
    signs = (" = " if figures[one] == figures[other] else " > " for one, other in pairwise((best, *others)))
    return best.name + "".join(f"{sign}{key.name}" for sign, key in zip(signs, others, strict=True))


def _std(figure: Figure, row: Row) -> float | None:
    return 0.0 if row.key.system in DETERMINISTIC else figure.std


def _figure_dict(row: RowResult, metric: str) -> dict[str, Any] | None:
    figure = row.figure(metric)
    return None if figure is None else asdict(figure)
