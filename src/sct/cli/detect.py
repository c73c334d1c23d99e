"""``sct detect``: region proposals of images, printed or in a file of detections."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sct.cli.bulk_options import BulkOptions, is_bulk, refuse_options, run_bulk, with_bulk_options
from sct.cli.fetch import FetchOption, fetch_images
from sct.cli.options import (
    AllowDownloadOption,
    DeviceOption,
    ImagesArgument,
    JsonLinesOption,
    ModelOption,
    RecursiveOption,
)
from sct.cli.printing import print_line, print_note
from sct.errors import InputError
from sct.limits import MAX_BATCH_SIZE, MAX_DETECTION_FILE_MB, MAX_DETECTIONS

if TYPE_CHECKING:
    from sct.cli.image_batches import ImageJob
    from sct.regions.records import Region


@with_bulk_options("attention")
def detect_command(
    images: ImagesArgument,
    limit: Annotated[
        int,
        typer.Option(
            min=1,
            max=MAX_DETECTIONS,
            help="Maximum number of regions per image; above 30 with --out FILE.safetensors only.",
        ),
    ] = 30,
    model: ModelOption = Path("default"),
    allow_download: AllowDownloadOption = False,
    device: DeviceOption = "cpu",
    recursive: RecursiveOption = False,
    fetch: FetchOption = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|DIR",
            help="Write to this file instead. FILE.jsonl: the JSON lines, as they are made; the same command resumes a "
            "stopped one. FILE.safetensors: boxes, classes and words for sct prepare --detections; images may then be "
            "tar files too. Bulk job: folder or URL of its outputs.",
        ),
    ] = None,
    as_json: JsonLinesOption = False,
    vision: Annotated[
        Path | None,
        typer.Option(help="Vision encoder instead of that of --model: a file, or a bundle. Not for bulk jobs."),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_BATCH_SIZE,
            help="Images per batch for FILE.safetensors or a bulk job; default: 256 on a GPU, or 8.",
        ),
    ] = None,
    max_file_mb: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_DETECTION_FILE_MB,
            help="Divide FILE.safetensors into FILE-000.safetensors and so on of at most this size; default: 15.",
        ),
    ] = None,
    *,
    bulk: BulkOptions,
) -> None:
    """Print region proposals of images, highest score first: score, class, box in pixels.

    Unreadable images are reported on stderr and skipped; the exit code is then 2. Shards (.tar, .parquet, .jsonl,
    URLs) are a bulk job, which writes one file per shard.
    """
    if out is not None and Path(out).suffix == ".safetensors":
        if as_json or recursive or fetch is not None:
            raise InputError(
                "got --json, --recursive or --fetch with --out FILE.safetensors, which has no use for them: omit them"
            )
        _write_file(
            list(map(Path, images)),
            Path(out),
            vision,
            model,
            device,
            limit=limit,
            batch_size=batch_size,
            max_file_mb=max_file_mb or 15,
            allow_download=allow_download,
        )
        return
    if is_bulk(images, out, replace(bulk, batch_size=None)):
        from sct.bulk.detections import DetectTask  # noqa: PLC0415
        from sct.captioner.bundle import bundle_sha256  # noqa: PLC0415

        if vision is not None:
            raise InputError(
                "got --vision in a bulk job, which detects with the encoder of --model: write --out FILE.safetensors"
            )
        refuse_options(
            {
                "--max-file-mb": max_file_mb is not None,
                "--recursive": recursive,
                "--fetch": fetch is not None,
                "--json": as_json,
            }
        )
        task = DetectTask(
            model=model,
            model_sha256=bundle_sha256(model),
            allow_download=allow_download,
            compute=bulk.compute(device),
            row_format=bulk.row_format or "parquet",
            features=bulk.features or "none",
            paths=bulk.paths(),
            limit=limit,
        )
        run_bulk(task, images, out, bulk, task.compute)
        return
    if batch_size is not None or max_file_mb is not None:
        raise InputError("got --batch-size or --max-file-mb without a file of detections: add --out FILE.safetensors")
    from sct.captioner.bundle import bundle_sha256, vision_file  # noqa: PLC0415
    from sct.captioner.captioner import check_device, detect_regions, load  # noqa: PLC0415
    from sct.cli.image_batches import ErrorReporter, list_image_files, open_run  # noqa: PLC0415
    from sct.storage.artifacts import sha256_file  # noqa: PLC0415
    from sct.vision.encoder import load_vision  # noqa: PLC0415

    errors = ErrorReporter()
    files = list_image_files(fetch_images(map(Path, images), fetch, errors.report), errors, recursive=recursive)
    if not files:
        raise typer.Exit(2)
    settings = {"command": "detect", "limit": limit}
    if vision is None:
        detect = load(model, device=device, allow_download=allow_download).detect_images
        settings["model"] = bundle_sha256(model)
    else:
        torch_device, file = check_device(device), vision_file(vision)
        detect = partial(detect_regions, load_vision(file, allow_download=allow_download).to(torch_device))
        settings["vision"] = sha256_file(file)
    with open_run(files, errors, out=None if out is None else Path(out), settings=settings, as_json=as_json) as run:
        for result in run.process(lambda jobs: detect([job.image for job in jobs], limit)):
            run.write(_record(result.job, result.value), partial(_print_regions, result.job, result.value))


def _write_file(
    images: Sequence[Path],
    out: Path,
    vision: Path | None,
    model: Path,
    device: str,
    *,
    limit: int,
    batch_size: int | None,
    max_file_mb: int,
    allow_download: bool,
) -> None:
    """Write the detections of all images of image sources."""
    from sct.captioner.bundle import vision_file  # noqa: PLC0415
    from sct.captioner.captioner import check_device  # noqa: PLC0415
    from sct.cli.image_batches import ErrorReporter  # noqa: PLC0415
    from sct.cli.progress import progress_bar  # noqa: PLC0415
    from sct.regions.detections import DetectionVocabulary  # noqa: PLC0415
    from sct.regions.detections_writer import DetectionBatch, check_output, write_detections  # noqa: PLC0415
    from sct.regions.image_keys import check_image_keys  # noqa: PLC0415
    from sct.regions.image_source import ImageSource  # noqa: PLC0415
    from sct.storage.artifacts import sha256_file  # noqa: PLC0415
    from sct.vision.detect import check_region_encoder, detect_images  # noqa: PLC0415
    from sct.vision.encoder import load_vision  # noqa: PLC0415

    check_output(out)
    torch_device = check_device(device)
    vision = vision_file(vision or model)
    encoder = check_region_encoder(load_vision(vision, allow_download=allow_download))
    source = ImageSource.open(*images)
    # Of each source by itself: together, an image of an earlier one hides those of the same name.
    check_image_keys(name for path in images for name in ImageSource.open(path).names)
    vocabulary = DetectionVocabulary(
        class_names=encoder.class_names,
        words=encoder.words,
        attributes=tuple(sorted(encoder.attributes)),
        encoder_sha256=sha256_file(vision),
    )
    errors, start, done = ErrorReporter(), perf_counter(), 0
    with progress_bar("images") as progress:

        def count(batches: Iterator[DetectionBatch]) -> Iterator[DetectionBatch]:
            nonlocal done
            for batch in batches:
                yield batch
                done += len(batch.image_ids)
                progress(done, len(source))

        batches = detect_images(
            encoder,
            source,
            source.names,
            limit=limit,
            batch_size=batch_size or (256 if torch_device.type == "cuda" else 8),
            device=torch_device,
            on_error=errors.report,
        )
        files = write_detections(out, vocabulary, count(batches), max_file_bytes=max_file_mb << 20)
    rate = done / (perf_counter() - start)
    print_note(f"images: {done:,} done, {errors.count:,} failed, {rate:.1f} per second; files: {len(files)}")
    if errors.count:
        raise typer.Exit(2)


def _record(job: "ImageJob", regions: "Sequence[Region]") -> dict[str, Any]:
    return {
        "image": str(job.file),
        "width": job.image.width,
        "height": job.image.height,
        "regions": [
            {
                "box": [round(side, 2) for side in region.box],
                "class": region.class_name,
                "score": region.score,
                **({"attributes": region.attributes} if region.attributes else {}),
            }
            for region in regions
        ],
    }


def _print_regions(job: "ImageJob", regions: "Sequence[Region]") -> None:
    print_line(f"{job.file}, {job.image.width} x {job.image.height}")
    for region in regions:
        box = " ".join(f"{side:8.1f}" for side in region.box)
        name = " ".join((*region.attributes, region.class_name or ""))
        print_line(f"  {region.score or 0.0:.2f}  {name:<16} {box}")
