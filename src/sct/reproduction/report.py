"""Reports of a reproduced table: Markdown, self-contained HTML with bar plots, and JSON."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from sct.reproduction.claims import Reproduction, Verdict
from sct.reproduction.published import DETERMINISTIC, STAGE_NAMES, Row, Section
from sct.reproduction.results import NOT_RUN, Figure, RowResult, format_figure, num_decimals
from sct.storage.atomic import atomic_write

_MISSING = "-"
_DIFFERENCES = "Reasons of differences"
_LEGEND = "Each cell has our figure, then the paper's in parentheses."
_STYLE = """
:root { color-scheme: light dark; --text: #1b1b1f; --quiet: #5c5c66; --ground: #fdfdfc; --line: #d5d5db;
  --here: #1d6fa5; --paper: #a9adb8; }
@media (prefers-color-scheme: dark) { :root { --text: #ececf0; --quiet: #a6a6b3; --ground: #17171b; --line: #3a3a44;
  --here: #62b3e4; --paper: #6d7180; } }
body { margin: 2rem auto; max-width: 74rem; padding: 0 1rem; background: var(--ground); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .5rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
table.text td, table.text th { text-align: left; white-space: normal; }
svg { display: block; margin: 1rem 0; max-width: 100%; height: auto; font: 13px system-ui, sans-serif;
  fill: var(--text); }
svg .title { font-weight: 600; font-size: 15px; }
svg .figure { fill: var(--quiet); font-size: 11px; }
svg .here { fill: var(--here); }
svg .paper { fill: var(--paper); }
svg .std { stroke: var(--text); stroke-width: 2; }
.key span { display: inline-block; width: .9em; height: .9em; margin: 0 .3em 0 1em; }
pre { overflow-x: auto; border: 1px solid var(--line); padding: .7rem; font-size: 13px; }
"""
_PLOT_KEY = (
    '<p class="key">Bars:<span style="background:var(--here)"></span>ours, with the standard deviation over seeds'
    '<span style="background:var(--paper)"></span>the paper</p>'
)
_NAME_WIDTH, _BAR_WIDTH, _FIGURE_WIDTH = 270, 360, 110
_ROW_HEIGHT, _BAR_HEIGHT, _TOP = 38, 12, 34


def write_report(result: Reproduction, folder: Path, command: str) -> str:
    """Write TABLE.md, TABLE.html and TABLE.json to a folder; returns the Markdown."""
    text = to_markdown(result, command)
    folder.mkdir(parents=True, exist_ok=True)
    contents = {"md": text, "html": to_html(result, command), "json": json.dumps(result.as_dict(), indent=1)}
    for suffix, content in contents.items():
        with atomic_write(folder / f"{result.table.name}.{suffix}") as file:
            file.write(content.encode("utf-8"))
    return text


def to_markdown(result: Reproduction, command: str) -> str:
    """Format as Markdown; ``command`` is the ``sct reproduce`` call."""
    parts = [f"# {result.table.name}: {result.table.title}", summarize(result), _LEGEND]
    tables = figure_tables(result)
    tables += [claim_table(result.verdicts)] if result.verdicts else []
    tables += [order_table(result)] if result.orders else []
    parts += map(_markdown_table, tables)
    if result.differences:
        parts += [f"**{_DIFFERENCES}**", _markdown_list(result.differences)]
    if notes := list_missing(result):
        parts += [_markdown_list(notes)]
    parts += ["\n".join(["```", *result.commands(), command, "```"])]
    return "\n\n".join(parts) + "\n"


def to_html(result: Reproduction, command: str) -> str:
    """Format as one HTML file that loads nothing; ``command`` is the ``sct reproduce`` call."""
    title = f"{result.table.name}: {result.table.title}"
    body = [f"<h1>{escape(title)}</h1>", f"<p>{escape(summarize(result))}</p>"]
    body += ["<h2>Figures</h2>", f"<p>{_LEGEND}</p>", *map(_html_table, figure_tables(result))]
    if plots := plot_bars(result):
        body += ["<h2>Compared with the paper</h2>", _PLOT_KEY, *(f'<div class="wide">{plot}</div>' for plot in plots)]
    if result.verdicts:
        body += ["<h2>Claims</h2>", _html_table(claim_table(result.verdicts), kind="text", has_title=False)]
    if result.orders:
        body += ["<h2>Order of rows</h2>", _html_table(order_table(result), kind="text", has_title=False)]
    if result.differences:
        body += [f"<h2>{_DIFFERENCES}</h2>", _html_list(result.differences)]
    if notes := list_missing(result):
        body += ["<h2>Notes</h2>", _html_list(notes)]
    commands = "\n".join([*result.commands(), command])
    body += ["<h2>Commands</h2>", f"<pre>{escape(commands)}</pre>"]
    # The policy keeps the page from loading anything, whatever ends up in it.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    content = "\n".join(body)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{content}\n</body>\n</html>\n"
    )


def _markdown_list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _html_list(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of strings, shared by Markdown and HTML."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def summarize(result: Reproduction) -> str:
    """One sentence: how many rows were measured, and how many claims hold."""
    rows = list(result.results.values())
    where = ", ".join(filter(None, (" and ".join(result.measured_on(result.table.sections)), result.split)))
    measured = f"{sum(row.is_measured for row in rows)} of {len(rows)} rows were measured on {where}"
    known = [verdict for verdict in result.verdicts if verdict.std is not None]
    single = [verdict for verdict in result.verdicts if verdict.outcome == "one seed"]
    if not known and not single:
        return f"{measured}."
    outcomes = Counter(verdict.outcome for verdict in known)
    reached = sum(bool(verdict.holds and verdict.reaches_margin) for verdict in known)
    agreeing, pairs = (sum(getattr(order, name) for order in result.orders) for name in ("agreeing", "pairs"))
    within = outcomes["within the spread of seeds"]
    above = sum(bool(verdict.is_above) for verdict in single)
    return (
        f"{measured}. Of {len(known)} claims with several seeds on both sides {outcomes['held']} hold beyond the "
        f"spread of seeds, {reached} of them by the paper's margin or more, and {within} are within it; of "
        f"{len(single)} claims with one seed on a side {above} have the paper's sign, which is no verdict. "
        f"{agreeing} of {pairs} pairs of rows are in the paper's order."
    )


def figure_tables(result: Reproduction) -> list[TextTable]:
    """One table per section, with the paper's figures in parentheses."""
    return [_section_table(result, section) for section in result.table.sections]


def claim_table(verdicts: Sequence[Verdict]) -> TextTable:
    """Claims with both margins and the verdict."""
    rows = tuple(
        (
            verdict.claim.text,
            _format_margin(verdict, verdict.claim.published),
            _margin_here(verdict),
            format_verdict(verdict),
        )
        for verdict in verdicts
    )
    return TextTable("Claims", ("claim", "margin in the paper", "margin here", "verdict"), rows)


def order_table(result: Reproduction) -> TextTable:
    """Rankings of rows in the paper and here."""
    rows = tuple(
        (
            ", ".join(filter(None, (order.title, f"by {order.metric}"))),
            order.published,
            "the same" if order.is_same else order.here,
            f"{order.agreeing} of {order.pairs}",
        )
        for order in result.orders
    )
    return TextTable("Order of rows", ("rows", "paper, best first", "here", "pairs in the paper's order"), rows)


def list_missing(result: Reproduction) -> list[str]:
    """Missing metrics and runs, with reasons."""
    metrics = [f"{metric} is missing: {' '.join(reason.split())}" for metric, reason in result.unavailable().items()]
    runs = [run for row in result.results.values() for run in row.runs if run.missing_reason not in ("", NOT_RUN)]
    runs_of_vectors = [run.vectors for row in result.results.values() for run in row.runs if run.vectors]
    vectors = [f"NW and IoU compare nouns by {name}." for name in dict.fromkeys(runs_of_vectors)]
    return (
        vectors
        + metrics
        + [f"{run.name}{' failed' * run.failed}: {' '.join(run.missing_reason.split())}" for run in runs]
    )


def format_verdict(verdict: Verdict) -> str:
    """Whether a claim holds."""
    if verdict.outcome == "one seed":
        return f"one seed: {'above' if verdict.is_above else 'not above'}"
    return "held, by less" if verdict.holds and not verdict.reaches_margin else verdict.outcome


def _format_margin(verdict: Verdict, margin: float) -> str:
    if verdict.claim.is_relative:
        return f"{100 * margin:+.1f} %"
    return f"{margin:+.{num_decimals(verdict.claim.metric)}f}"


def _margin_here(verdict: Verdict) -> str:
    if verdict.margin is None:
        return _MISSING
    text = _format_margin(verdict, verdict.margin)
    return text if verdict.std is None else f"{text} ± {_format_margin(verdict, verdict.std).lstrip('+')}"


def _section_table(result: Reproduction, section: Section) -> TextTable:
    has_stages = section.has_stages  # otherwise the title names the stage
    first = "split" if result.table.protocol == "statistics" else "system"
    header = (first, *(["stage"] if has_stages else []), "runs", *result.metrics)
    rows, is_random = [], result.table.protocol != "statistics"
    for row in section.rows:
        measured = result.results[row.key]
        stage = [STAGE_NAMES[row.key.stage]] if has_stages else []
        cells = (_cell(row, measured, metric) for metric in result.metrics)
        rows.append(
            (
                row.key.name,
                *stage,
                _num_runs(measured, is_random=is_random and row.key.system not in DETERMINISTIC),
                *cells,
            )
        )
    return TextTable(_section_title(result, section), header, tuple(rows))


def _section_title(result: Reproduction, section: Section) -> str:
    """Title with the dataset here, if the table has several datasets and the section was measured."""
    is_measured = any(result.results[row.key].is_measured for row in section.rows)
    if len(result.table.data) == 1 or not is_measured:
        return section.title
    return f"{section.title}; here {' and '.join(result.measured_on([section]))}"


def _num_runs(result: RowResult, *, is_random: bool) -> str:
    measured = sum(not run.missing_reason for run in result.runs)
    if measured == 1 and is_random:
        return "1, no spread"
    if measured:
        return f"{measured}"
    return "failed" if any(run.failed for run in result.runs) else NOT_RUN


def _cell(row: Row, result: RowResult, metric: str) -> str:
    figure = result.figure(metric)
    here = _MISSING if figure is None else format_figure(figure.mean, metric)
    if figure is not None and figure.std is not None:
        here += f" ± {format_figure(figure.std, metric)}"
    return f"{here} ({format_figure(row.figures[metric], metric)})" if metric in row.figures else here


def _markdown_table(table: TextTable) -> str:
    title = [f"**{table.title}**", ""] if table.title else []
    rule = "| --- |" + " ---: |" * (len(table.header) - 1)
    rows = ("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (table.header, *table.rows))
    header, *body = rows
    return "\n".join([*title, header, rule, *body])


def _html_table(table: TextTable, *, kind: str = "", has_title: bool = True) -> str:
    heading = f"<h3>{escape(table.title)}</h3>" if has_title and table.title else ""
    header = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.header)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    return (
        f'{heading}<div class="wide"><table class="{kind}"><thead><tr>{header}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


@dataclass(frozen=True, slots=True)
class _Bar:
    name: str
    here: Figure | None
    published: float | None


def plot_bars(result: Reproduction) -> list[str]:
    """SVG bar plots of the first two headline metrics of each section that was measured."""
    plots = []
    for section in result.table.sections:
        for metric in [name for name in result.table.headline if name in result.metrics][:2]:
            bars = [
                _Bar(_bar_name(row, section), result.results[row.key].figure(metric), row.figures.get(metric))
                for row in section.rows
            ]
            if any(bar.here is not None for bar in bars):
                plots.append(_plot(", ".join(filter(None, (section.title, metric))), metric, bars))
    return plots


def _bar_name(row: Row, section: Section) -> str:
    return f"{row.key.name}, {STAGE_NAMES[row.key.stage]}" if section.has_stages else row.key.name


def _plot(title: str, metric: str, bars: list[_Bar]) -> str:
    width, height = _NAME_WIDTH + _BAR_WIDTH + _FIGURE_WIDTH, _TOP + _ROW_HEIGHT * len(bars)
    values = [bar.published or 0.0 for bar in bars]
    values += [bar.here.mean + (bar.here.std or 0.0) for bar in bars if bar.here is not None]
    maximum = max(*values, 1e-9)
    parts = [f'<text class="title" x="0" y="18">{escape(title)}</text>']
    for index, bar in enumerate(bars):
        top = _TOP + _ROW_HEIGHT * index
        parts.append(f'<text x="{_NAME_WIDTH - 10}" y="{top + 17}" text-anchor="end">{escape(bar.name)}</text>')
        if bar.here is not None:
            parts += _draw_bar("here", top, bar.here.mean, bar.here.std, maximum, metric)
        if bar.published is not None:
            parts += _draw_bar("paper", top + _BAR_HEIGHT + 2, bar.published, None, maximum, metric)
    label = f"{title}: bar plot of our figures and the paper's, which the table lists"
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _draw_bar(kind: str, top: int, value: float, std: float | None, maximum: float, metric: str) -> list[str]:
    def scale(figure: float) -> float:
        return round(_BAR_WIDTH * max(figure, 0.0) / maximum, 1)

    middle = top + _BAR_HEIGHT / 2
    parts = [f'<rect class="{kind}" x="{_NAME_WIDTH}" y="{top}" width="{scale(value)}" height="{_BAR_HEIGHT}"/>']
    if std is not None:
        ends = (_NAME_WIDTH + scale(value - std), _NAME_WIDTH + scale(value + std))
        parts.append(f'<line class="std" x1="{ends[0]}" x2="{ends[1]}" y1="{middle}" y2="{middle}"/>')
    text = _NAME_WIDTH + scale(value + (std or 0.0)) + 6
    parts.append(f'<text class="figure" x="{text}" y="{middle + 4}">{format_figure(value, metric)}</text>')
    return parts
