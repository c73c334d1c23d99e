"""What the paper's figures claim, and whether ours say the same.

A claim is a margin: one row above another in one metric. That it holds means that the order is the same here; whether
the margin is as large as the paper's is said besides. What the paper's own figures do not show is no claim of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import hypot

from sct.reproduction.figures import Figure, Results
from sct.reproduction.published import STAGE_NAMES, PublishedTable, Row, RowKey, Section

_ABSOLUTE = frozenset({"NW", "IoU", "accuracy", "tau"})
"""Metrics whose margins are differences; those of the others are shares of the lower figure."""
_CHAMPIONS = ("ours", "sinkhorn")


@dataclass(frozen=True, slots=True)
class Claim:
    """One row above another."""

    metric: str
    better: Row
    worse: Row

    @property
    def text(self) -> str:
        """In words."""
        one, other = self.better.key, self.worse.key
        if one.system == other.system:
            return f"{one.name}: {STAGE_NAMES[one.stage]} above {STAGE_NAMES[other.stage]} in {self.metric}"
        stage = f" ({STAGE_NAMES[one.stage]})" if one.stage and one.stage == other.stage else ""
        return f"{one.name} above {other.name} in {self.metric}{stage}"

    @property
    def is_relative(self) -> bool:
        """Whether its margin is a share of the lower figure."""
        return self.metric not in _ABSOLUTE

    @property
    def published(self) -> float:
        """The paper's margin."""
        return self._margin(self.better.figures[self.metric], self.worse.figures[self.metric])

    def _margin(self, better: float, worse: float) -> float:
        return better / worse - 1 if self.is_relative else better - worse

    def judged(self, results: Results) -> "Verdict":
        """The same margin here."""
        better, worse = (results[row.key].figure(self.metric) for row in (self.better, self.worse))
        if better is None or worse is None or (self.is_relative and worse.mean <= 0):
            return Verdict(self, None, None)
        return Verdict(self, self._margin(better.mean, worse.mean), self._spread(better, worse))

    def _spread(self, better: Figure, worse: Figure) -> float | None:
        """How far seeds let the margin vary, as one standard deviation; none where a row has a single run."""
        if better.spread is None or worse.spread is None:
            return None
        if not self.is_relative:
            return hypot(better.spread, worse.spread)
        return hypot(better.spread / worse.mean, worse.spread * better.mean / worse.mean**2)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim with the margin here."""

    claim: Claim
    margin: float | None
    """None where one of the two rows was not measured, or a share of nothing would be asked for."""
    spread: float | None

    @property
    def holds(self) -> bool | None:
        """Whether the better row is above here too; none: not known."""
        return None if self.margin is None else self.margin > 0

    @property
    def reaches_margin(self) -> bool | None:
        """Whether it is so by as much as in the paper."""
        return None if self.margin is None else self.margin >= self.claim.published


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The rows of a section by one metric, in the paper and here; only rows that both have."""

    title: str
    metric: str
    published: str
    """Best first, as in "Ours > POS = AG-CVAE"."""
    here: str
    agreeing: int
    """Pairs of rows that are in the same order, so not equal here; those that are equal in the paper do not count."""
    pairs: int

    @property
    def is_same(self) -> bool:
        """Whether every pair is in the paper's order."""
        return self.agreeing == self.pairs


def claims_of(table: PublishedTable) -> list[Claim]:
    """What a table claims of ours, or of the sorting network: above every other row, and better with each stage."""
    found = [claim for section in table.sections for claim in _above_all_others(section, table.headline)]
    found += _gains([row for row in table.rows() if row.key.system in _CHAMPIONS], table.headline)
    return [claim for claim in found if claim.published > 0]


def judge_claims(table: PublishedTable, results: Results) -> list[Verdict]:
    """Every claim of a table with the margin here."""
    return [claim.judged(results) for claim in claims_of(table)]


def row_orders(table: PublishedTable, results: Results) -> list[RowOrder]:
    """The order of the rows of each section, by the metrics that its claims are about."""
    orders = [_order(section, metric, results) for section in table.sections for metric in table.headline]
    return [order for order in orders if order.pairs]


def _above_all_others(section: Section, metrics: Sequence[str]) -> Iterator[Claim]:
    """Nearest rival first, as that is what one looks for."""
    champion = next((row for row in section.rows if row.key.system in _CHAMPIONS), None)
    if champion is None:
        return
    for rival in reversed(section.rows):
        if rival.key.system != champion.key.system and rival.figures:
            yield from (Claim(metric, champion, rival) for metric in metrics)


def _gains(rows: Sequence[Row], metrics: Sequence[str]) -> Iterator[Claim]:
    for before, after in pairwise(rows):
        is_next_stage = before.key.stage and before.key.data == after.key.data and before.key.stage != after.key.stage
        if is_next_stage and before.figures and after.figures:
            yield from (Claim(metric, after, before) for metric in metrics)


def _order(section: Section, metric: str, results: Results) -> RowOrder:
    here = {row.key: figure.mean for row in section.rows if (figure := results[row.key].figure(metric)) is not None}
    rows = [row for row in section.rows if row.key in here and metric in row.figures]

    pairs = [(one, other) for one, other in combinations(rows, 2) if one.figures[metric] != other.figures[metric]]
    agreeing = sum(
        (one.figures[metric] - other.figures[metric]) * (here[one.key] - here[other.key]) > 0 for one, other in pairs
    )
    return RowOrder(
        section.title,
        metric,
        _ranked({row.key: row.figures[metric] for row in rows}),
        _ranked({row.key: here[row.key] for row in rows}),
        agreeing,
        len(pairs),
    )


def _ranked(figures: Mapping[RowKey, float]) -> str:
    """Rows from the best to the worst."""
    if not figures:
        return ""
    best, *others = sorted(figures, key=lambda key: -figures[key])
    signs = (" = " if figures[one] == figures[other] else " > " for one, other in pairwise((best, *others)))
    return best.name + "".join(f"{sign}{key.name}" for sign, key in zip(signs, others, strict=True))
