"""A reproduction as Markdown."""

from sct.reproduction.table import Reproduction
from sct.reproduction.wording import Grid, claim_grid, figure_grids, order_grid, remarks, summary


def markdown(made: Reproduction, command: str) -> str:
    """The whole of it; ``command`` is what was typed to have it."""
    parts = [f"# {made.table.name}: {made.table.title}", summary(made), "Here, and in brackets the paper's figure."]
    parts += [_grid(grid) for grid in figure_grids(made)]
    if made.verdicts:
        parts += [_grid(claim_grid(made.verdicts))]
    if made.orders:
        parts += [_grid(order_grid(made))]
    if said := remarks(made):
        parts += ["\n".join(f"- {line}" for line in said)]
    parts += ["\n".join(["```", *made.commands(), command, "```"])]
    return "\n\n".join(parts) + "\n"


def _grid(grid: Grid) -> str:
    title = [f"**{grid.title}**", ""] if grid.title else []
    rule = "| --- |" + " ---: |" * (len(grid.header) - 1)
    return "\n".join([*title, _line(grid.header), rule, *map(_line, grid.rows)])


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
