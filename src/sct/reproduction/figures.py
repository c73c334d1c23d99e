"""Figures of a row: of each run that was made for it, and over them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from sct.reproduction.published import RowKey

NOT_RUN = "not run"
_DIGITS: Mapping[str, int] = {
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
    """A figure over the runs of a row."""

    mean: float
    spread: float | None
    """Standard deviation over seeds; none of a single run."""
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A run of a row and what was measured of it."""

    name: str
    data: str = ""
    """Name of the dataset that it was measured on; empty where nothing was."""
    commands: tuple[str, ...] = ()
    """What somebody would type to have it, one line for each run that it starts from and for itself."""
    figures: Mapping[str, float | None] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why figures are missing, by metric."""
    absent: str = ""
    """Why nothing was measured at all; empty if something was."""
    has_failed: bool = False
    """Whether that is a fault, and not a run that nobody asked for."""


@dataclass(frozen=True, slots=True)
class RowResult:
    """What there is of a row."""

    key: RowKey
    runs: tuple[RunResult, ...]

    def figure(self, metric: str) -> Figure | None:
        """A figure over the runs that have it; none: no run has."""
        values = [value for run in self.runs if (value := run.figures.get(metric)) is not None]
        return figure_of(values)

    @property
    def is_measured(self) -> bool:
        """Whether any run of it was."""
        return any(not run.absent for run in self.runs)


Results = Mapping[RowKey, RowResult]
"""What there is of every row of a table."""


def figure_of(values: Sequence[float]) -> Figure | None:
    """Mean and standard deviation over runs.

    >>> figure_of([1.0, 3.0])
    Figure(mean=2.0, spread=1.4142135623730951, runs=2)
    """
    if not values:
        return None
    return Figure(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def digits_of(metric: str) -> int:
    """Places after the point that the paper's tables print."""
    return _DIGITS.get(metric, 1)


def figure_text(value: float, metric: str) -> str:
    """A figure as the paper's tables print it.

    >>> figure_text(1518667, "noun chunks"), figure_text(0.5, "NW"), figure_text(193.04, "C")
    ('1,518,667', '0.500', '193.0')
    """
    return f"{value:,.{digits_of(metric)}f}"
