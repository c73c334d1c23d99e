"""``sct bulk``: progress of a bulk job, and the dataset of a prepare job."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from sct.cli.printing import print_json, print_line
from sct.errors import InputError


def bulk_command(
    action: Annotated[
        Literal["status", "join"],
        typer.Argument(help="status: progress, rate, errors and time left. join: one dataset of a prepare job."),
    ],
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder or URL of a job: its --out.")],
    out: Annotated[Path | None, typer.Argument(help="join: output folder, new or empty.")] = None,
    images: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="join: images of the dataset, a folder or tar files; repeatable."),
    ] = None,
    vectors: Annotated[
        Path | None, typer.Option(help="join: word vectors of the noun table instead of GloVe 6B 50-d.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the progress of a bulk job, which sct caption, detect, prepare and score run over shards.

    join instead makes one dataset of the tables of a finished prepare job.
    """
    from sct.bulk.location import Location  # noqa: PLC0415
    from sct.bulk.status import read_status  # noqa: PLC0415

    if (action == "join") != (out is not None) or (action == "status" and (images or vectors)):
        raise InputError("expected sct bulk status DIR, or sct bulk join DIR OUT")
    if out is not None:
        from sct.bulk.prepared import join_tables  # noqa: PLC0415

        manifest = join_tables(Location.parse(folder), out, images=images or (), vectors=vectors)
        report = {"out": str(out), **asdict(manifest)}
        text = f"{out}: {manifest.source}, {manifest.num_images:,} images, {manifest.num_captions:,} captions"
        print_json(report) if as_json else print_line(text)
        return
    status = read_status(Location.parse(folder))
    if as_json:
        print_json(status.as_dict())
    else:
        for line in status.lines():
            print_line(line)
