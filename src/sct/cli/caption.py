"""``sct caption``: the main job, from images to grounded captions."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sct.cli.progress import progress_bar
from sct.errors import InputError

if TYPE_CHECKING:
    from sct.captioner.grounded_caption import GroundedCaption, RegionOrder
    from sct.regions import Control


def caption_command(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE", help="Images, and folders of them.")],
    region: Annotated[
        list[str] | None,
        typer.Option(
            metavar="X1,Y1,X2,Y2[+X1,Y1,X2,Y2...]",
            help="Box in pixels to talk about, in order; boxes joined by + are talked about together.",
        ),
    ] = None,
    regions: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help='Boxes of many images: {"photo.jpg": [[x1,y1,x2,y2]]}.')
    ] = None,
    unordered: Annotated[
        bool, typer.Option("--unordered", help="Let the sorter put the regions in order, and tell which.")
    ] = False,
    model: Annotated[Path, typer.Option(help="Folder of a bundle, or the word default.")] = Path("default"),
    draw: Annotated[
        Path | None, typer.Option(help="LoadedImage to write, with boxes and caption; for several images a folder.")
    ] = None,
    beam: Annotated[int, typer.Option(min=1, help="Captions that are kept in mind at each word.")] = 5,
    n_best: Annotated[int, typer.Option(min=1, help="Captions that are told of each image.")] = 1,
    cover: Annotated[bool, typer.Option("--cover", help="Talk about every region before the sentence ends.")] = False,
    max_length: Annotated[int, typer.Option(min=1, help="Most words, the end counted as one.")] = 20,
    length_penalty: Annotated[
        float | None,
        typer.Option(min=0, help="Rank captions by score / length ** this; the bundle's own if not given."),
    ] = None,
    no_repeat_ngram_size: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Never say the same N words in a row twice; 0: off.",
            show_default="2; 0 for a bundle that searches as the authors' code does",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    precision: Annotated[
        Literal["float32", "float16", "int8"], typer.Option(help="Of the captioner: float16 for GPUs, int8 for CPUs.")
    ] = "float32",
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each image, a line each.")] = False,
) -> None:
    """Caption images, each noun chunk grounded on a region; without --region the regions are detected and ordered.

    An image that cannot be used is told of on stderr and does not stop the rest; the exit code is then 2.
    """
    from sct.captioner.captioner import CaptionOptions, ImageRequest, load  # noqa: PLC0415
    from sct.captioner.grounded_caption import GroundedCaption  # noqa: PLC0415
    from sct.cli.image_batches import Complaints, Job, each_image, found_files  # noqa: PLC0415

    if n_best > beam:
        raise InputError(f"--n-best {n_best} is more than --beam {beam} keeps: make the beam as large")
    complaints = Complaints()
    files = found_files(images, complaints)
    if not files:
        raise typer.Exit(2)
    controls = _controls(files, region, regions, ordered=not unordered)
    places = {} if draw is None else _places(draw, files)
    captioner = load(model, device=device, precision=precision)
    options = CaptionOptions(
        beam_size=beam,
        n_best=n_best,
        cover=cover,
        max_length=max_length,
        length_penalty=length_penalty,
        no_repeat_ngram_size=captioner.default_no_repeat_ngram_size
        if no_repeat_ngram_size is None
        else no_repeat_ngram_size,
    )

    def work(jobs: Sequence[Job]) -> list[list[GroundedCaption]]:
        return captioner.caption_images([ImageRequest(job.image, controls[job.file]) for job in jobs], options)

    is_json_read = as_json and sys.stdout.isatty()  # a bar would break its lines
    with progress_bar("images", hidden=is_json_read or len(files) == 1) as progress:
        for number, done in enumerate(each_image(files, work, complaints), start=1):
            if not done.found:
                complaints.tell(InputError(f"{done.job.file}: no caption holds to all that was asked: ask for less"))
                continue
            if done.job.file in places:
                from sct.drawing.captions import draw_caption, save_drawing  # noqa: PLC0415

                save_drawing(draw_caption(done.job.image, done.found[0]), places[done.job.file])
            if as_json:
                print(json.dumps(_record(done.job.file, done.found), ensure_ascii=False))
            else:
                was_asked = unordered and controls[done.job.file] is not None
                _print_captions(done.job.file, done.found, restore_input_order=was_asked)
            progress(number, len(files))
    sys.stdout.flush()
    if complaints.count:
        raise typer.Exit(2)


def _controls(
    files: Sequence[Path], region: Sequence[str] | None, regions: Path | None, *, ordered: bool
) -> "dict[Path, Control | None]":
    """What is to be talked about in each image; None: what is detected."""
    from sct.regions.parsing import (  # noqa: PLC0415
        as_control,
        read_controls,
    )

    if region and regions is not None:
        raise InputError("--region and --regions were both given: expected one of them")
    if not region and regions is None:
        if not ordered:
            raise InputError("--unordered was given without --region or --regions: what is detected is ordered anyway")
        return dict.fromkeys(files)
    if regions is not None:
        return dict(zip(files, read_controls(regions, files, ordered=ordered), strict=True))
    return dict.fromkeys(files, as_control([_boxes(each) for each in region or ()], ordered=ordered))


def _boxes(text: str) -> list[list[float]]:
    """The boxes of one --region.

    >>> _boxes("20,30,200,310+0,0,9.5,9")
    [[20.0, 30.0, 200.0, 310.0], [0.0, 0.0, 9.5, 9.0]]
    """
    try:
        return [[float(side) for side in box.split(",")] for box in text.split("+")]
    except ValueError:
        raise InputError(f"--region {text!r}: expected X1,Y1,X2,Y2 in pixels, boxes of one thing joined by +") from None


def _places(draw: Path, files: Sequence[Path]) -> dict[Path, Path]:
    """Where each drawing goes: for one image the file that was named, else into the folder."""
    from PIL import Image  # noqa: PLC0415

    Image.init()
    is_image = Image.registered_extensions().get(draw.suffix.lower()) in Image.SAVE
    if len(files) == 1 and draw.suffix and not draw.is_dir():
        if not is_image:
            raise InputError(f"--draw {draw} has no ending of an image format: expected .png, .jpg or the like")
        if draw.exists() and files[0].exists() and draw.samefile(files[0]):
            raise InputError(f"--draw {draw} would overwrite the image: expected another file")
        return {files[0]: draw}
    if draw.is_file() or (is_image and not draw.is_dir()):
        raise InputError(f"--draw {draw} is one file, but there are {len(files)} images: expected a folder")
    places: dict[Path, Path] = {}
    for file in files:
        taken, number = set(places.values()), 1
        while (place := draw / f"{file.stem}{f'-{number}' if number > 1 else ''}.grounded.png") in taken:
            number += 1
        places.setdefault(file, place)
    return places


def _record(file: Path, captions: "Sequence[GroundedCaption]") -> dict[str, Any]:
    """The best caption with all that is known of it, and the others where several were asked for."""
    best, *others = [_caption_record(caption) for caption in captions]
    return {"image": str(file), **best, **({"others": others} if others else {})}


def _caption_record(caption: "GroundedCaption") -> dict[str, Any]:
    content = caption.as_dict()
    return {"caption": content.pop("text"), **content}


def _print_captions(file: Path, captions: "Sequence[GroundedCaption]", *, restore_input_order: bool) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from sct.drawing.terminal import format_caption  # noqa: PLC0415

    console = Console(soft_wrap=True, highlight=False)
    order = _order_text(captions[0].order) if restore_input_order and captions[0].order is not None else ""
    if len(captions) == 1:
        console.print(Text(f"{file}: ").append_text(format_caption(captions[0])).append(order))
        return
    console.print(Text(f"{file}{order}"))
    for caption in captions:
        console.print(Text(f"  {caption.log_prob:7.2f}  ").append_text(format_caption(caption)))


def _order_text(order: "RegionOrder") -> str:
    """What the sorter chose, for people, who count regions from 1."""
    numbers = ", ".join(str(number + 1) for number in order.sets)
    probability = "" if order.probability is None else f"; probability {order.probability:.2f}"
    return f"  (order of the regions: {numbers}{probability})"
