"""``sct detect``: region proposals of images."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sct.cli.options import (
    AllowDownloadOption,
    DeviceOption,
    ImagesArgument,
    JsonLinesOption,
    ModelOption,
    RecursiveOption,
    ResultsOption,
)
from sct.cli.printing import print_line
from sct.limits import MAX_DETECTIONS

if TYPE_CHECKING:
    from sct.cli.image_batches import ImageJob
    from sct.regions.records import Region


def detect_command(
    images: ImagesArgument,
    limit: Annotated[int, typer.Option(min=1, max=MAX_DETECTIONS, help="Maximum number of regions per image.")] = 30,
    model: ModelOption = Path("default"),
    allow_download: AllowDownloadOption = False,
    device: DeviceOption = "cpu",
    recursive: RecursiveOption = False,
    out: ResultsOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Print region proposals of images, highest score first: score, class, box in pixels.

    Unreadable images are reported on stderr and skipped; the exit code is then 2.
    """
    from sct.captioner.bundle import bundle_sha256  # noqa: PLC0415
    from sct.captioner.captioner import load  # noqa: PLC0415
    from sct.cli.image_batches import ErrorReporter, list_image_files, open_run  # noqa: PLC0415

    errors = ErrorReporter()
    files = list_image_files(images, errors, recursive=recursive)
    if not files:
        raise typer.Exit(2)
    captioner = load(model, device=device, allow_download=allow_download)
    settings = {"command": "detect", "model": bundle_sha256(model), "limit": limit}
    with open_run(files, errors, out=out, settings=settings, as_json=as_json) as run:
        for result in run.process(lambda jobs: captioner.detect_images([job.image for job in jobs], limit)):
            run.write(_record(result.job, result.value), partial(_print_regions, result.job, result.value))


def _record(job: "ImageJob", regions: "Sequence[Region]") -> dict[str, Any]:
    return {
        "image": str(job.file),
        "width": job.image.width,
        "height": job.image.height,
        "regions": [
            {"box": [round(side, 2) for side in region.box], "class": region.class_name, "score": region.score}
            for region in regions
        ],
    }


def _print_regions(job: "ImageJob", regions: "Sequence[Region]") -> None:
    print_line(f"{job.file}, {job.image.width} x {job.image.height}")
    for region in regions:
        box = " ".join(f"{side:8.1f}" for side in region.box)
        print_line(f"  {region.score or 0.0:.2f}  {region.class_name or '':<16} {box}")
