"""A reproduction as one HTML file: no script, no font, no image from elsewhere, readable by day and by night."""

from html import escape

from sct.reproduction.plots import bar_plots
from sct.reproduction.table import Reproduction
from sct.reproduction.wording import Grid, claim_grid, figure_grids, order_grid, remarks, summary

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
table.words td, table.words th { text-align: left; white-space: normal; }
svg { display: block; margin: 1rem 0; max-width: 100%; height: auto; font: 13px system-ui, sans-serif;
  fill: var(--text); }
svg .title { font-weight: 600; font-size: 15px; }
svg .figure { fill: var(--quiet); font-size: 11px; }
svg .here { fill: var(--here); }
svg .paper { fill: var(--paper); }
svg .spread { stroke: var(--text); stroke-width: 2; }
.key span { display: inline-block; width: .9em; height: .9em; margin: 0 .3em 0 1em; }
pre { overflow-x: auto; border: 1px solid var(--line); padding: .7rem; font-size: 13px; }
"""
_KEY = (
    '<p class="key">Bars:<span style="background:var(--here)"></span>here, with the spread of seeds'
    '<span style="background:var(--paper)"></span>the paper</p>'
)


def page(made: Reproduction, command: str) -> str:
    """The whole file; ``command`` is what was typed to have it."""
    title = f"{made.table.name}: {made.table.title}"
    body = [f"<h1>{escape(title)}</h1>", f"<p>{escape(summary(made))}</p>"]
    body += ["<h2>Figures</h2>", "<p>Here, and in brackets the paper's figure.</p>"]
    body += [_grid(grid) for grid in figure_grids(made)]
    if plots := bar_plots(made):
        body += ["<h2>Beside the paper</h2>", _KEY, *(f'<div class="wide">{plot}</div>' for plot in plots)]
    if made.verdicts:
        body += ["<h2>Claims</h2>", _grid(claim_grid(made.verdicts), kind="words", titled=False)]
    if made.orders:
        body += ["<h2>Order of rows</h2>", _grid(order_grid(made), kind="words", titled=False)]
    if said := remarks(made):
        body += ["<h2>What is missing</h2>", f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in said)}</ul>"]
    commands = "\n".join([*made.commands(), command])
    body += ["<h2>Commands</h2>", f"<pre>{escape(commands)}</pre>"]
    return _document(title, "\n".join(body))


def _document(title: str, body: str) -> str:
    # The policy keeps the page from asking anything of anybody, whatever ends up in it.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _grid(grid: Grid, *, kind: str = "", titled: bool = True) -> str:
    heading = f"<h3>{escape(grid.title)}</h3>" if titled and grid.title else ""
    header = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in grid.header)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in grid.rows)
    return (
        f'{heading}<div class="wide"><table class="{kind}"><thead><tr>{header}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
