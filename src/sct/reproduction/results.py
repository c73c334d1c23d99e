"""Measured figures of rows: one result per run, aggregated over seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from sct.reproduction.published import RowKey

NOT_RUN = "not run"
OTHER_VECTORS = " with "
"""Separates a metric from the file of word vectors that it was computed with, if not the default ones."""
_DECIMALS: Mapping[str, int] = {
    "NW": 3,
    "tau": 3,
    "Div-1": 3,
    "Div-2": 3,
    "mBLEU": 3,
    "self-CIDEr": 3,
    "chunks per caption": 2,
    "captions": 0,
    "noun chunks": 0,
    "classes": 0,
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric, aggregated over the runs of a row."""

    mean: float
    std: float | None
    """Standard deviation over seeds; None for a single run."""
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Figures of one run."""

    name: str
    data: str = ""
    """Name of the dataset it was measured on; empty if it was not measured."""
    commands: tuple[str, ...] = ()
    """Shell commands that train it, those of earlier stages first."""
    figures: Mapping[str, float | None] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Reason of each missing figure, by metric."""
    vectors: str = ""
    """Word vectors of NW and IoU; empty if neither was computed."""
    missing_reason: str = ""
    """Why the run was not measured; empty if it was."""
    failed: bool = False
    """Whether that is a failure, not a run that was not requested."""


@dataclass(frozen=True, slots=True)
class RowResult:
    """Results of all runs of a row."""

    key: RowKey
    runs: tuple[RunResult, ...]

    def figure(self, metric: str) -> Figure | None:
        """Aggregate a metric over the runs that have it; None if no run has."""
        return aggregate([value for run in self.runs if (value := run.figures.get(metric)) is not None])

    @property
    def is_measured(self) -> bool:
        """Whether any of its runs was measured."""
        return any(not run.missing_reason for run in self.runs)


Results = Mapping[RowKey, RowResult]
"""Result of every row of a table."""


def aggregate(values: Sequence[float]) -> Figure | None:
    """Mean and standard deviation over runs; None without values.

    >>> aggregate([1.0, 3.0])
    Figure(mean=2.0, std=1.4142135623730951, runs=2)
    """
    if not values:
        return None
    return Figure(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def num_decimals(metric: str) -> int:
    """Decimals that the paper's tables print of a metric."""
    return _DECIMALS.get(metric.partition(OTHER_VECTORS)[0], 1)


def format_figure(value: float, metric: str) -> str:
    """Format a figure as in the paper's tables.

    >>> format_figure(1518667, "noun chunks"), format_figure(0.5, "NW"), format_figure(193.04, "C")
    ('1,518,667', '0.500', '193.0')
    """
    return f"{value:,.{num_decimals(metric)}f}"
