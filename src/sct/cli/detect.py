"""``sct detect``: regions of images that are worth talking about."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sct.cli.progress import progress_bar


def detect_command(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE", help="Images, and folders of them.")],
    limit: Annotated[int, typer.Option(min=1, help="Most regions of an image.")] = 30,
    model: Annotated[Path, typer.Option(help="Folder of a bundle, or the word default.")] = Path("default"),
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each image, a line each.")] = False,
) -> None:
    """Print the regions of images that are worth talking about, the best first: score, class, box in pixels."""
    from sct.captioner.captioner import load  # noqa: PLC0415
    from sct.cli.image_batches import Complaints, each_image, found_files  # noqa: PLC0415
    from sct.regions import Region  # noqa: PLC0415

    complaints = Complaints()
    files = found_files(images, complaints)
    if not files:
        raise typer.Exit(2)
    captioner = load(model, device=device)

    def record(region: Region) -> dict[str, Any]:
        return {"box": [round(side, 2) for side in region.box], "class": region.class_name, "score": region.score}

    is_json_read = as_json and sys.stdout.isatty()  # a bar would break its lines
    with progress_bar("images", hidden=is_json_read or len(files) == 1) as progress:
        work = each_image(files, lambda jobs: captioner.detect_images([job.image for job in jobs], limit), complaints)
        for number, done in enumerate(work, start=1):
            regions = [record(region) for region in done.found]
            image = done.job.image
            if as_json:
                size = {"width": image.width, "height": image.height}
                print(json.dumps({"image": str(done.job.file), **size, "regions": regions}))
            else:
                print(f"{done.job.file}, {image.width} x {image.height}")
                for each in regions:
                    box = " ".join(f"{side:8.1f}" for side in each["box"])
                    print(f"  {each['score']:.2f}  {each['class'] or '':<16} {box}")
            progress(number, len(files))
    sys.stdout.flush()
    if complaints.count:
        raise typer.Exit(2)
