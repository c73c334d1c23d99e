"""``sct detect``: region proposals of images."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sct.cli.options import DeviceOption, ImagesArgument, JsonLinesOption, ModelOption
from sct.cli.progress import progress_bar

if TYPE_CHECKING:
    from sct.regions.records import Region


def detect_command(
    images: ImagesArgument,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of regions per image.")] = 30,
    model: ModelOption = Path("default"),
    device: DeviceOption = "cpu",
    as_json: JsonLinesOption = False,
) -> None:
    """Print region proposals of images, highest score first: score, class, box in pixels.

    Unreadable images are reported on stderr and skipped; the exit code is then 2.
    """
    from sct.captioner.captioner import load  # noqa: PLC0415
    from sct.cli.image_batches import ErrorReporter, list_image_files, process_images  # noqa: PLC0415

    errors = ErrorReporter()
    files = list_image_files(images, errors)
    if not files:
        raise typer.Exit(2)
    captioner = load(model, device=device)
    results = process_images(files, lambda jobs: captioner.detect_images([job.image for job in jobs], limit), errors)
    hides_bar = len(files) == 1 or (as_json and sys.stdout.isatty())  # a bar would break lines of JSON
    with progress_bar("images", hidden=hides_bar) as progress:
        for number, result in enumerate(results, start=1):
            file, image = result.job.file, result.job.image
            if as_json:
                size = {"width": image.width, "height": image.height}
                print(json.dumps({"image": str(file), **size, "regions": [_record(each) for each in result.value]}))
            else:
                print(f"{file}, {image.width} x {image.height}")
                for region in result.value:
                    box = " ".join(f"{side:8.1f}" for side in region.box)
                    print(f"  {region.score or 0.0:.2f}  {region.class_name or '':<16} {box}")
            progress(number, len(files))
    sys.stdout.flush()
    if errors.count:
        raise typer.Exit(2)


def _record(region: "Region") -> dict[str, Any]:
    return {"box": [round(side, 2) for side in region.box], "class": region.class_name, "score": region.score}
