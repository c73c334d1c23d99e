"""``sct stats``: statistics of a dataset next to the paper's Table 1."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as TextTable
from rich.text import Text

from sct.data.dataset import Dataset
from sct.data.statistics import SplitStatistics, compute_statistics
from sct.errors import escape_controls
from sct.reproduction.published import TABLES, table_1_figures
from sct.reproduction.results import format_figure


def stats_command(
    dataset: Annotated[Path, typer.Argument(help="Dataset folder written by sct prepare.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the number of captions, noun chunks and classes of each split (the paper's Table 1)."""
    opened = Dataset.open(dataset)
    statistics = compute_statistics(opened.table)
    if as_json:
        print(json.dumps({split: _record(row) for split, row in statistics.items()}))
        return
    console = Console(width=None if Console().is_terminal else 120)
    console.print(_table_1(opened.manifest.source, statistics))
    console.print(_source_captions(statistics))


def _record(split: SplitStatistics) -> dict[str, float]:
    return {
        **asdict(split),
        "chunks_per_caption": split.chunks_per_caption,
        "associated_share": split.associated_share,
    }


def _table_1(source: str, statistics: Mapping[str, SplitStatistics]) -> TextTable:
    published = TABLES["table1"]
    table = TextTable(title="Table 1")
    for heading in ("", "split", *published.metrics):
        table.add_column(heading, justify="left" if heading in ("", "split") else "right")
    for split, row in statistics.items():
        table.add_row(
            _text(f"this dataset ({source})"), _text(split), *_format(published.metrics, table_1_figures(row))
        )
    for section in published.sections:
        table.add_section()
        for published_row in section.rows:
            name, split = f"{section.title}, published", published_row.key.system
            table.add_row(name, split, *_format(published.metrics, published_row.figures))
    table.caption = "Associated: noun chunks with a region, of all captions of the source."
    return table


def _text(name: str) -> Text:
    """Return a name of a dataset folder as text without markup."""
    return Text(escape_controls(name))


def _format(metrics: Sequence[str], figures: Mapping[str, float]) -> list[str]:
    return [format_figure(figures[metric], metric) if metric in figures else "" for metric in metrics]


def _source_captions(statistics: Mapping[str, SplitStatistics]) -> TextTable:
    table = TextTable(title="Captions of the source")
    for heading in ("split", "images", "in source", "no noun chunk", "a chunk has no region", "used"):
        table.add_column(heading, justify="left" if heading == "split" else "right")
    for split, row in statistics.items():
        counts = (
            row.num_images,
            row.num_source_captions,
            row.num_without_chunk,
            row.num_unassociated,
            row.num_captions,
        )
        table.add_row(_text(split), *(f"{count:,}" for count in counts))
    table.caption = "Captions with a chunk that has no region are used in training only."
    return table
