"""``sct merge``: one dataset of several."""

from pathlib import Path
from typing import Annotated

import typer

from sct.cli.printing import print_json, print_line


def merge_command(
    datasets: Annotated[list[Path], typer.Argument(metavar="DATASET...", help="Folders written by sct prepare.")],
    out: Annotated[Path, typer.Argument(help="Output folder, new or empty.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Merge datasets into one, to train on all of them: one vocabulary, all images.

    No image may be in two of them. Images stay where they are.
    """
    from dataclasses import asdict  # noqa: PLC0415

    from sct.data.merge import merge_datasets  # noqa: PLC0415

    manifest = merge_datasets(datasets, out)
    if as_json:
        print_json({"out": str(out), **asdict(manifest)})
    else:
        print_line(f"{out}: {manifest.source}, {manifest.num_images:,} images, {manifest.num_captions:,} captions")
