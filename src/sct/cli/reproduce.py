"""``sct reproduce``: reproduce a table of the paper and compare it with the published figures."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from sct.cli.options import MovedImagesOption
from sct.cli.printing import print_note
from sct.errors import InputError
from sct.limits import MAX_DEVICES, MAX_SEEDS


def reproduce_command(
    table: Annotated[
        str, typer.Argument(help="table1 to table5, table6 or table7 (diversity), tableA1 (sorting) to tableA4.")
    ],
    data: Annotated[
        list[Path], typer.Option(help="Dataset folder, written by sct prepare; table1: also two, COCO and Flickr.")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Overrides of the recipes of all stages, or of one: max_epochs=1 cider:max_seconds=300",
        ),
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder of run directories; finished runs are used as they are.")] = Path(
        "runs"
    ),
    recorded: Annotated[
        Path | None, typer.Option(help="File of recorded figures (runs.json) of runs that are not in --runs.")
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(help="Region store of the dataset's detections, written by sct prepare, as features of all rows."),
    ] = None,
    vectors: Annotated[
        Path | None, typer.Option(help="Further word vectors, such as glove.6B.300d.txt, for columns of NW and IoU.")
    ] = None,
    holdout: Annotated[
        float,
        typer.Option(
            min=0.0, max=0.9, help="Fraction of the training images on which captioners are selected; 0: the val split."
        ),
    ] = 0.05,
    learning_rate_factors: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="Try these factors of the recipes' learning rates for every row, such as 0.5,1,2."
        ),
    ] = None,
    recipes: Annotated[Path, typer.Option(help="Folder of recipes; default: those of sct.")] = Path("recipes"),
    rescore: Annotated[
        bool, typer.Option("--rescore", help="Compute figures again from the captions that --recorded holds.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Output folder; default: reproduction/TABLE.")] = None,
    split: Annotated[str, typer.Option(help="Split to caption; default: val.")] = "",
    seeds: Annotated[
        int,
        typer.Option(
            min=1,
            max=MAX_SEEDS,
            help="Number of runs of each row; sorters without randomness have one.",
        ),
    ] = 3,
    metrics: Annotated[str | None, typer.Option(help="Metrics to compute, such as C,NW; default: all.")] = None,
    train: Annotated[bool, typer.Option(help="Train missing runs.")] = True,
    systems: Annotated[
        str | None,
        typer.Option(help="Systems to train, such as ours,fc_2k; default: all. Finished runs of others are used too."),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(min=1, max=MAX_DEVICES, help="Number of runs to train at once, and of runs to caption at once."),
    ] = 1,
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="Device to train and caption on.")] = "auto",
    images: MovedImagesOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train missing runs of a table of the paper, evaluate every row, and compare with the published figures.

    An interrupted call can be repeated: runs, captions and scores are cached in the run directories. A failed run stops
    no other; the exit code is then 1.
    """
    from sct.regions.image_source import ImageSource  # noqa: PLC0415
    from sct.regions.sharded_store import open_store  # noqa: PLC0415
    from sct.reproduction.evaluate_rows import reproduce  # noqa: PLC0415
    from sct.reproduction.plan import ReproductionConfig, require_folder  # noqa: PLC0415
    from sct.reproduction.published import find_table  # noqa: PLC0415
    from sct.reproduction.records import record_table  # noqa: PLC0415
    from sct.reproduction.report import write_report  # noqa: PLC0415
    from sct.storage.atomic import lock_folder  # noqa: PLC0415
    from sct.training.recipe_files import find_recipe_folder  # noqa: PLC0415

    ImageSource.open(*images or ())  # an error now, not after hours
    published = find_table(table)
    if features is not None:
        open_store(features)
    if vectors is not None and not vectors.is_file():
        raise InputError(
            f"{vectors} is not a file, expected word vectors such as glove.6B.300d.txt: give --vectors FILE"
        )
    config = ReproductionConfig(
        data=data[0],
        more_data=tuple(data[1:]),
        runs=runs,
        recorded=recorded,
        features=features,
        vectors=vectors,
        holdout=holdout,
        learning_rate_factors=_parse_factors(learning_rate_factors),
        rescore=rescore,
        recipes=find_recipe_folder(recipes),
        overrides=tuple(overrides or ()),
        split=split,
        seeds=seeds,
        metrics=_split_names(metrics),
        train=train,
        systems=_split_names(systems),
        jobs=jobs,
        device=device,
        images=tuple(images or ()),
    )
    folder = out or Path("reproduction") / published.name
    require_folder(folder, "--out")
    with lock_folder(folder):
        result = reproduce(published, config, print_note)
        text = write_report(result, folder, config.command(published, out))
        names = [run.name for row in result.results.values() for run in row.runs]
        record_table(names, runs, folder / f"{published.name}.runs.json.xz")
    print_note(f"written to {folder}")
    print(json.dumps(result.as_dict()) if as_json else text)
    if result.failures():
        raise typer.Exit(1)


def _parse_factors(text: str | None) -> tuple[float, ...]:
    try:
        return tuple(float(factor) for factor in _split_names(text))
    except ValueError:
        raise InputError(f"got --learning-rate-factors {text!r}, expected numbers such as 0.5,1,2") from None


def _split_names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())
