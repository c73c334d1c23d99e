"""``sct prepare``: any supported source to a dataset folder, detections in HDF5 to a region store."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from sct.cli.progress import progress_bar
from sct.data.records import Mode
from sct.errors import InputError

HDF5_ENDINGS = {".h5", ".hdf5"}


def prepare_command(
    source: Annotated[Path, typer.Argument(help="A folder or file; its kind is told by what lies there.")],
    out: Annotated[Path, typer.Argument(help="Folder to write; a killed run goes on where it was.")],
    mode: Annotated[Mode, typer.Option(help="reference: keep what the authors' released code does.")] = "paper",
    splits: Annotated[Path | None, typer.Option(help="Karpathy's dataset_coco.json or dataset_flickr30k.json.")] = None,
    features: Annotated[Path | None, typer.Option(help="Region store with the detections.")] = None,
    min_iou: Annotated[
        float | None, typer.Option(help="Flickr30k Entities: least overlap of a human box and its detection.")
    ] = None,
    images: Annotated[Path | None, typer.Option(help="Folder of the images, for sct show.")] = None,
    vectors: Annotated[Path | None, typer.Option(help="Word vectors instead of GloVe 6B 50-d.")] = None,
    min_similarity: Annotated[
        float | None, typer.Option(help="How alike noun and class must be; -1: no limit, as in the paper.")
    ] = None,
    classes: Annotated[
        Path | None, typer.Option(help="HDF5 only: names of the detector's classes, one a line.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave unreadable inputs out and report them.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Begin anew where OUT holds a dataset.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; one for each core if not given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,
) -> None:
    """Make a dataset folder of grounded JSONL, COCO layout, COCO Entities or Flickr30k Entities.

    Captions that nobody has grounded are grounded on the way. An HDF5 file of detections becomes a region store.
    """
    from sct.data.prepare import PrepareConfig, prepare  # noqa: PLC0415
    from sct.data.sources import SourceOptions  # noqa: PLC0415

    settings = PrepareConfig(
        source=SourceOptions(mode=mode, splits=splits, features=features, min_iou=min_iou, image_folder=images),
        vectors=vectors,
        min_similarity=min_similarity,
        skip_bad=skip_bad,
        overwrite=overwrite,
        workers=workers,
    )
    report: dict[str, Any]
    if source.suffix in HDF5_ENDINGS:
        if settings != PrepareConfig():
            raise InputError(f"{source} is a file of detections, for which there is only --classes: leave the rest out")
        report = _convert(source, out, classes)
    else:
        if classes is not None:
            raise InputError("--classes is for HDF5 files of detections alone: leave it out")
        with progress_bar("images") as progress:
            prepared = prepare(source, out, settings, progress)
        for fault in prepared.faults:
            print(f"left out: {fault}", file=sys.stderr)
        report = {"out": str(out), **asdict(prepared.manifest)}
    print(json.dumps(report) if as_json else _sentence(report))


def _convert(source: Path, out: Path, classes: Path | None) -> dict[str, Any]:
    from sct.regions.hdf5 import convert_hdf5, read_class_names  # noqa: PLC0415

    if classes is None:
        raise InputError(f"{source} does not name its classes: give them with --classes FILE, one a line")
    with progress_bar("images") as progress:
        images = convert_hdf5(source, out, class_names=read_class_names(classes), progress=progress)
    return {"out": str(out), "source": "HDF5 detections", "num_images": images}


def _sentence(report: dict[str, Any]) -> str:
    captions = f", {report['num_captions']:,} captions" if "num_captions" in report else ""
    skipped = report.get("skipped") or {}
    dropped = "".join(f"\n  left out: {count:,} {name.replace('_', ' ')}" for name, count in skipped.items())
    return f"{report['out']}: {report['source']}, {report['num_images']:,} images{captions}{dropped}"
