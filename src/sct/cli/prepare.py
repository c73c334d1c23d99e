"""``sct prepare``: dataset folders from any supported source, region stores from HDF5 detections."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from sct.cli.bulk_options import BulkOptions, refuse_options, run_bulk, with_bulk_options
from sct.cli.printing import print_json, print_line, print_message
from sct.cli.progress import progress_bar
from sct.data.records import GroundingMode, ReaderMode
from sct.errors import InputError
from sct.limits import MAX_THREADS


@with_bulk_options("attention", "batch_size", "features", "gpus_each", "images_per_shard")
def prepare_command(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE OUT",
            help="Source folder or file, whose format is detected, and output folder; the same command resumes a "
            "killed run. With --out: shards, also globs and URLs.",
        ),
    ],
    job: Annotated[
        str | None,
        typer.Option("--out", metavar="DIR", help="Bulk job (docs/bulk.md): folder or URL of a table per shard."),
    ] = None,
    mode: Annotated[
        ReaderMode, typer.Option(help="reference: reproduce the defects of the authors' released code.")
    ] = "paper",
    splits: Annotated[
        Path | None,
        typer.Option(help="Karpathy's dataset_*.json; Flickr30k Entities: also a folder with train.txt and val.txt."),
    ] = None,
    features: Annotated[Path | None, typer.Option(help="Region store with the detections.")] = None,
    min_iou: Annotated[
        float | None, typer.Option(help="Flickr30k Entities: minimum IoU of a human box and its detection.")
    ] = None,
    images: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Images: a folder, a tar file or a folder of tar files; repeatable."),
    ] = None,
    vectors: Annotated[
        Path | None, typer.Option(help="Word vectors instead of GloVe 6B 50-d: a GloVe or word2vec file.")
    ] = None,
    spacy_model: Annotated[
        str | None, typer.Option(help="spaCy pipeline, a name or folder; default: en_core_web_sm.")
    ] = None,
    min_similarity: Annotated[
        float | None, typer.Option(help="Minimum cosine similarity of noun and class; -1: none.")
    ] = None,
    grounding: Annotated[
        GroundingMode | None,
        typer.Option(
            help="How captions are grounded. learned: by a score of chunks and detected regions (default with "
            "--detections). paper: first detected of the five most similar classes. classes: by the source's boxes.",
        ),
    ] = None,
    detections: Annotated[
        list[Path] | None, typer.Option(help="Detections to ground captions on: files of sct detect --out.")
    ] = None,
    classes: Annotated[Path | None, typer.Option(help="HDF5 and bulk jobs: class names, one per line.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip unreadable inputs and report them.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the dataset in OUT.")] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, max=MAX_THREADS, help="Number of processes; default: one per core.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    *,
    bulk: BulkOptions,
) -> None:
    """Prepare a dataset from grounded JSONL, COCO, COCO layout, COCO Entities or Flickr30k Entities.

    Captions without groundings are grounded automatically. An HDF5 file of detections becomes a region store. With
    --out, shards of grounded JSONL, or webdataset tar files with captions, are a bulk job.
    """
    if job is not None:
        from sct.bulk.prepared import PrepareTask  # noqa: PLC0415

        refuse_options(
            {
                "--mode reference": mode != "paper",
                "--splits": splits is not None,
                "--features": features is not None,
                "--min-iou": min_iou is not None,
                "--images": images is not None,
                "--skip-bad": skip_bad,
                "--overwrite": overwrite,
                "--json": as_json,
            }
        )
        task = PrepareTask(
            grounding=grounding,
            detections=tuple(detections or ()),
            vectors=vectors,
            min_similarity=min_similarity,
            classes=classes,
            spacy_model=spacy_model,
            row_format=bulk.row_format,
            paths=bulk.paths(),
        )
        run_bulk(task, paths, job, bulk, bulk.compute("cpu"))
        return
    if len(paths) != 2 or bulk != BulkOptions(workers=workers):
        raise InputError(
            f"got {len(paths)} paths without --out, expected SOURCE and OUT: options of bulk jobs need --out DIR"
        )
    source, out = map(Path, paths)
    from sct.data.prepare import PrepareConfig, prepare  # noqa: PLC0415
    from sct.data.sources import SourceOptions  # noqa: PLC0415
    from sct.language.noun_chunks import select_spacy_model  # noqa: PLC0415

    select_spacy_model(spacy_model)
    config = PrepareConfig(
        source=SourceOptions(mode=mode, splits=splits, features=features, min_iou=min_iou, images=tuple(images or ())),
        vectors=vectors,
        min_similarity=min_similarity,
        grounding=grounding,
        detections=tuple(detections or ()),
        classes=classes,
        skip_bad=skip_bad,
        overwrite=overwrite,
        workers=workers,
    )
    with progress_bar("images") as progress:
        result = prepare(source, out, config, progress)
    for message in result.read_errors:
        print_message(f"skipped: {message}")
    report = {"out": str(out), **result.report()}
    if as_json:
        print_json(report)
    else:
        for line in _summary(report):
            print_line(line)


def _summary(report: dict[str, Any]) -> Iterator[str]:
    captions = f", {report['num_captions']:,} captions" if "num_captions" in report else ""
    yield f"{report['out']}: {report['source']}, {report['num_images']:,} images{captions}"
    for name, count in report.get("skipped", {}).items():
        yield f"  skipped: {count:,} {name.replace('_', ' ')}"
