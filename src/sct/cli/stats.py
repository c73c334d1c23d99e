"""``sct stats``: statistics of a dataset next to the paper's Table 1."""

import json
from collections.abc import Mapping
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
from sct.reproduction.published import TABLES


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
    console = Console(width=None if Console().is_terminal else 110)
    console.print(_table_1(opened.manifest.source, statistics))
    console.print(_source_captions(statistics))


def _record(split: SplitStatistics) -> dict[str, float]:
    return {**asdict(split), "chunks_per_caption": split.chunks_per_caption}


def _table_1(source: str, statistics: Mapping[str, SplitStatistics]) -> TextTable:
    published = TABLES["table1"]
    table = TextTable(title="Table 1")
    for heading in ("", "split", *published.metrics):
        table.add_column(heading, justify="left" if heading in ("", "split") else "right")
    for split, row in statistics.items():
        values = (row.num_captions, row.num_noun_chunks, row.chunks_per_caption, row.num_classes)
        table.add_row(_text(f"this dataset ({source})"), _text(split), *map(_format, published.metrics, values))
    for section in published.sections:
        table.add_section()
        for published_row in section.rows:
            figures = [published_row.figures[metric] for metric in published.metrics]
            name, split = f"{section.title}, published", published_row.key.system
            table.add_row(name, split, *map(_format, published.metrics, figures))
    return table


def _text(name: str) -> Text:
    """Return a name of a dataset folder as text without markup."""
    return Text(escape_controls(name))


def _format(metric: str, value: float) -> str:
    return f"{value:.2f}" if metric == "chunks per caption" else f"{int(value):,}"


def _source_captions(statistics: Mapping[str, SplitStatistics]) -> TextTable:
    table = TextTable(title="Captions of the source")
    for heading in ("split", "images", "in source", "no noun chunk", "a chunk has no region", "used", "associated"):
        table.add_column(heading, justify="left" if heading == "split" else "right")
    for split, row in statistics.items():
        share = row.num_associated_chunks / row.num_noun_chunks if row.num_noun_chunks else 0.0
        counts = (
            row.num_images,
            row.num_source_captions,
            row.num_without_chunk,
            row.num_unassociated,
            row.num_captions,
        )
        table.add_row(_text(split), *(f"{count:,}" for count in counts), f"{share:.1%}")
    table.caption = "Captions with a chunk that has no region are used in training only; associated: share of chunks."
    return table
