"""``sct reproduce``: a table of the paper made again, ours beside it."""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sct.storage.atomic import atomic_write

if TYPE_CHECKING:
    from sct.reproduction.table import Reproduction


def reproduce_command(
    table: Annotated[
        str, typer.Argument(help="table1 to table5, table6 or table7 (diversity), tableA1 (sorting) to tableA4.")
    ],
    data: Annotated[Path, typer.Option(help="A folder made by sct prepare.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Settings over the recipes' of all stages, or of one: max_epochs=1 cider:max_seconds=300",
        ),
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder of runs; finished ones are taken as they are.")] = Path("runs"),
    recipes: Annotated[Path, typer.Option(help="Folder of the project's recipes.")] = Path("recipes"),
    out: Annotated[Path | None, typer.Option(help="Folder for the table; reproduction/TABLE if not given.")] = None,
    split: Annotated[str, typer.Option(help="Part of the dataset that is captioned; val if not given.")] = "",
    seeds: Annotated[
        int,
        typer.Option(
            min=1, help="How often Ours, Controllable Up-Down, SVM Rank and the Sinkhorn network are trained."
        ),
    ] = 3,
    metrics: Annotated[str | None, typer.Option(help="Some of the table's; all if not given.")] = None,
    train: Annotated[bool, typer.Option(help="Train the runs that are missing.")] = True,
    systems: Annotated[
        str | None, typer.Option(help="Only these are trained, such as ours,fc_2k; finished runs are taken of all.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many runs are trained at once.")] = 1,
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="To train and to caption on.")] = "auto",
    images: Annotated[Path | None, typer.Option(help="Folder of the dataset's images, if it has moved.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train what is missing of a table of the paper, evaluate every row, and compare with what the paper says.

    It may be stopped at any time and called again: runs, captions and figures are kept in the folders of the runs. A
    run that fails stops no other; the exit code is then 1.
    """
    import torch  # noqa: PLC0415

    from sct.reproduction.published import table_named  # noqa: PLC0415
    from sct.reproduction.request import Request  # noqa: PLC0415
    from sct.reproduction.runs import Workplace, refuse_file  # noqa: PLC0415
    from sct.reproduction.table import reproduce  # noqa: PLC0415

    chosen = table_named(table)
    place = Workplace(
        data=data,
        runs=runs,
        recipes=recipes,
        settings=tuple(settings or ()),
        accelerator=device,
        image_folder=images,
    )
    request = Request(
        place=place,
        split=split,
        seeds=seeds,
        metrics=_names(metrics),
        train=train,
        systems=_names(systems),
        jobs=jobs,
        device=("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device,
    )
    folder = out or Path("reproduction") / chosen.name
    refuse_file(folder, "--out")
    made = reproduce(chosen, request, lambda line: print(f"sct: {line}", file=sys.stderr, flush=True))
    options = {
        "--data": data,
        "--runs": runs,
        "--recipes": recipes,
        "--out": out,
        "--split": split,
        "--seeds": seeds,
        "--metrics": metrics,
        "--systems": systems,
        "--jobs": jobs,
        "--device": device,
        "--images": images,
    }
    command = _command(chosen.name, place.settings, options, {"--no-train": not train, "--json": as_json})
    text = _written(made, folder, command)
    print(json.dumps(made.as_dict()) if as_json else text)
    if made.failures():
        raise typer.Exit(1)


def _names(text: str | None) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _command(table: str, settings: Sequence[str], options: Mapping[str, object], flags: Mapping[str, bool]) -> str:
    """What makes the same table again; options that were neither given nor have a value are left out."""
    given = [word for option, value in options.items() if value not in (None, "") for word in (option, str(value))]
    return shlex.join(["sct", "reproduce", table, *settings, *given, *(flag for flag, is_up in flags.items() if is_up)])


def _written(made: "Reproduction", folder: Path, command: str) -> str:
    """Write the table as Markdown, as a page and as JSON, and give the Markdown."""
    from sct.reproduction.markdown import markdown  # noqa: PLC0415
    from sct.reproduction.page import page  # noqa: PLC0415

    text = markdown(made, command)
    folder.mkdir(parents=True, exist_ok=True)
    contents = {"md": text, "html": page(made, command), "json": json.dumps(made.as_dict(), indent=1)}
    for ending, content in contents.items():
        with atomic_write(folder / f"{made.table.name}.{ending}") as file:
            file.write(content.encode("utf-8"))
    print(f"sct: written to {folder}", file=sys.stderr)
    return text
