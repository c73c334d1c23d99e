"""``sct bulk status``: progress of a bulk job."""

from typing import Annotated, Literal

import typer

from sct.cli.printing import print_json, print_line


def bulk_command(
    action: Annotated[Literal["status"], typer.Argument(help="status: progress, rate, errors and time left.")],
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder or URL of a job: its --out.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the progress of a bulk job, which sct caption, detect, prepare and score run over shards."""
    from sct.bulk.location import Location  # noqa: PLC0415
    from sct.bulk.status import read_status  # noqa: PLC0415

    assert action == "status"
    status = read_status(Location.parse(folder))
    if as_json:
        print_json(status.as_dict())
    else:
        for line in status.lines():
            print_line(line)
