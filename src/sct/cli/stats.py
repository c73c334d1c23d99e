"""``sct stats``: the paper's Table 1 for a dataset, beside the published one."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Grid

from sct.data.dataset import Dataset
from sct.data.published import TABLE_1, Table1Column
from sct.data.statistics import SplitStatistics, compute_statistics


def stats_command(
    dataset: Annotated[Path, typer.Argument(help="A folder made by sct prepare.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print captions, noun chunks and classes of each split (the paper's Table 1)."""
    opened = Dataset.open(dataset)
    found = compute_statistics(opened.table)
    if as_json:
        print(json.dumps({split: _record(split_statistics) for split, split_statistics in found.items()}))
        return
    console = Console(width=None if Console().is_terminal else 110)
    console.print(_table_1(opened.manifest.source, found))
    console.print(_dropped(found))


def _record(split: SplitStatistics) -> dict[str, float]:
    return {**asdict(split), "chunks_per_caption": split.chunks_per_caption}


def _table_1(source: str, found: dict[str, SplitStatistics]) -> Grid:
    grid = Grid(title="Table 1")
    for heading in ("", "split", "captions", "noun chunks", "chunks per caption", "classes"):
        grid.add_column(heading, justify="left" if heading in ("", "split") else "right")
    for split, row in found.items():
        ours = Table1Column(row.num_captions, row.num_noun_chunks, row.chunks_per_caption, row.num_classes)
        _add_row(grid, f"this dataset ({source})", split, ours)
    for name, splits in TABLE_1.items():
        grid.add_section()
        for split, published in splits.items():
            _add_row(grid, f"{name}, published", split, published)
    return grid


def _add_row(grid: Grid, name: str, split: str, row: Table1Column) -> None:
    grid.add_row(
        name, split, f"{row.num_captions:,}", f"{row.num_noun_chunks:,}", f"{row.chunks_per_caption:.2f}", f"{row.num_classes:,}"
    )


def _dropped(found: dict[str, SplitStatistics]) -> Grid:
    grid = Grid(title="What became of the source's captions")
    for heading in ("split", "images", "in source", "no noun chunk", "a chunk has no region", "used", "associated"):
        grid.add_column(heading, justify="left" if heading == "split" else "right")
    for split, row in found.items():
        share = row.num_associated_chunks / row.num_noun_chunks if row.num_noun_chunks else 0.0
        counts = (
            row.num_images,
            row.num_source_captions,
            row.num_without_chunk,
            row.num_unassociated,
            row.num_captions,
        )
        grid.add_row(split, *(f"{count:,}" for count in counts), f"{share:.1%}")
    grid.caption = "Only training keeps captions in which a chunk has no region; associated: share of the used chunks."
    return grid
