"""Bars of ours beside the paper's, as SVG that takes its colours from the page around it."""

from dataclasses import dataclass
from html import escape

from sct.reproduction.figures import Figure, figure_text
from sct.reproduction.published import STAGE_NAMES, Row, Section
from sct.reproduction.table import Reproduction

_NAME_WIDTH, _BAR_WIDTH, _FIGURE_WIDTH = 270, 360, 110
_ROW_HEIGHT, _BAR_HEIGHT, _TOP = 38, 12, 34


@dataclass(frozen=True, slots=True)
class _Bar:
    name: str
    here: Figure | None
    published: float | None


def bar_plots(made: Reproduction) -> list[str]:
    """A plot of each headline metric in each section of the table in which a row was measured."""
    plots = []
    for section in made.table.sections:
        for metric in [name for name in made.table.headline if name in made.metrics][:2]:
            bars = [
                _Bar(_name(row, section), made.results[row.key].figure(metric), row.figures.get(metric))
                for row in section.rows
            ]
            if any(bar.here is not None for bar in bars):
                plots.append(_plot(", ".join(filter(None, (section.title, metric))), metric, bars))
    return plots


def _name(row: Row, section: Section) -> str:
    return f"{row.key.name}, {STAGE_NAMES[row.key.stage]}" if section.has_stages else row.key.name


def _plot(title: str, metric: str, bars: list[_Bar]) -> str:
    width, height = _NAME_WIDTH + _BAR_WIDTH + _FIGURE_WIDTH, _TOP + _ROW_HEIGHT * len(bars)
    values = [bar.published or 0.0 for bar in bars]
    values += [bar.here.mean + (bar.here.spread or 0.0) for bar in bars if bar.here is not None]
    longest = max(*values, 1e-9)
    parts = [f'<text class="title" x="0" y="18">{escape(title)}</text>']
    for place, bar in enumerate(bars):
        top = _TOP + _ROW_HEIGHT * place
        parts.append(f'<text x="{_NAME_WIDTH - 10}" y="{top + 17}" text-anchor="end">{escape(bar.name)}</text>')
        if bar.here is not None:
            parts += _bar("here", top, bar.here.mean, bar.here.spread, longest, metric)
        if bar.published is not None:
            parts += _bar("paper", top + _BAR_HEIGHT + 2, bar.published, None, longest, metric)
    label = f"{title}: bars of ours and of the paper's figures, which are in the table"
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _bar(kind: str, top: int, value: float, spread: float | None, longest: float, metric: str) -> list[str]:
    def across(figure: float) -> float:
        return round(_BAR_WIDTH * max(figure, 0.0) / longest, 1)

    middle = top + _BAR_HEIGHT / 2
    parts = [f'<rect class="{kind}" x="{_NAME_WIDTH}" y="{top}" width="{across(value)}" height="{_BAR_HEIGHT}"/>']
    if spread is not None:
        ends = (_NAME_WIDTH + across(value - spread), _NAME_WIDTH + across(value + spread))
        parts.append(f'<line class="spread" x1="{ends[0]}" x2="{ends[1]}" y1="{middle}" y2="{middle}"/>')
    text = _NAME_WIDTH + across(value + (spread or 0.0)) + 6
    parts.append(f'<text class="figure" x="{text}" y="{middle + 4}">{figure_text(value, metric)}</text>')
    return parts
