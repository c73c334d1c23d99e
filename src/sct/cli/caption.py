"""``sct caption``: grounded captions of images."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
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
    PrecisionOption,
    RecursiveOption,
    ResultsOption,
)
from sct.errors import InputError, escape_controls

if TYPE_CHECKING:
    from sct.captioner.grounded_caption import GroundedCaption
    from sct.cli.image_batches import ImageJob
    from sct.regions.records import Control


@with_bulk_options()
def caption_command(
    images: ImagesArgument,
    region: Annotated[
        list[str] | None,
        typer.Option(
            metavar="X1,Y1,X2,Y2[+X1,Y1,X2,Y2...][=NAME]",
            help="Box in pixels to describe, in order; repeat for more. Boxes joined by + share one noun chunk, which "
            "says the name, if given.",
        ),
    ] = None,
    regions: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help='Boxes by image: {"photo.jpg": [[x1,y1,x2,y2]]}.')
    ] = None,
    unordered: Annotated[
        bool, typer.Option("--unordered", help="Let the sorter order the regions, and print the order.")
    ] = False,
    relative: Annotated[
        bool, typer.Option("--relative", help="Boxes are fractions of the image, from 0 to 1, not pixels.")
    ] = False,
    model: ModelOption = Path("default"),
    draw: Annotated[
        Path | None, typer.Option(help="Write the image with boxes and caption; a folder for several images.")
    ] = None,
    beam_size: Annotated[int, typer.Option(min=1, help="Beam size.")] = 5,
    n_best: Annotated[int, typer.Option(min=1, help="Captions to print per image.")] = 1,
    cover: Annotated[bool, typer.Option("--cover", help="Require every region to be described.")] = False,
    whole_chunks: Annotated[
        bool | None,
        typer.Option(
            "--whole-chunks/--no-whole-chunks",
            help="Pass from region to region after nouns only, and break off no phrase.",
            show_default="on if the model knows nouns",
        ),
    ] = None,
    ban: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="Word that must not occur, in any number; repeatable.")
    ] = None,
    require: Annotated[list[str] | None, typer.Option(metavar="WORD", help="Word that must occur; repeatable.")] = None,
    min_fit: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            metavar="P",
            help="Prefer nouns that fit their regions with this probability.",
            show_default="0.1 for given regions if the model can tell, or 0",
        ),
    ] = None,
    max_length: Annotated[int, typer.Option(min=1, help="Maximum number of tokens, EOS included.")] = 20,
    length_penalty: Annotated[
        float | None, typer.Option(min=0, help="Rank captions by log_prob / length ** PENALTY; default: the bundle's.")
    ] = None,
    no_repeat_ngram_size: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Forbid repeated n-grams of this size; 0: off.",
            show_default="2; 0 for the authors' weights",
        ),
    ] = None,
    allow_download: AllowDownloadOption = False,
    device: DeviceOption = "cpu",
    precision: PrecisionOption = "float32",
    recursive: RecursiveOption = False,
    fetch: FetchOption = None,
    out: ResultsOption = None,
    as_json: JsonLinesOption = False,
    *,
    bulk: BulkOptions,
) -> None:
    """Caption images, each noun chunk grounded on a region; without --region, regions are detected and ordered.

    Unreadable images are reported on stderr and skipped; the exit code is then 2. Shards (.tar, .parquet, .jsonl,
    URLs) are a bulk job, which writes one file per shard.
    """
    from sct.captioner.bundle import bundle_sha256  # noqa: PLC0415
    from sct.captioner.captioner import load  # noqa: PLC0415
    from sct.captioner.requests import CaptionOptions, ImageRequest  # noqa: PLC0415
    from sct.cli.image_batches import ErrorReporter, list_image_files, open_run  # noqa: PLC0415
    from sct.storage.artifacts import sha256_file  # noqa: PLC0415

    if n_best > beam_size:
        raise InputError(f"got --n-best {n_best} with --beam-size {beam_size}: use a beam at least as large")
    options = CaptionOptions(
        beam_size=beam_size,
        n_best=n_best,
        cover=cover,
        whole_chunks=whole_chunks,
        banned_words=tuple(ban or ()),
        required_words=tuple(require or ()),
        min_fit=min_fit,
        max_length=max_length,
        length_penalty=length_penalty,
        no_repeat_ngram_size=no_repeat_ngram_size,
    )
    if is_bulk(images, out, bulk):
        from sct.bulk.captions import CaptionTask  # noqa: PLC0415

        refuse_options(
            {
                "--region": bool(region),
                "--regions": regions is not None,
                "--unordered": unordered,
                "--relative": relative,
                "--draw": draw is not None,
                "--recursive": recursive,
                "--fetch": fetch is not None,
                "--json": as_json,
            }
        )
        task = CaptionTask(
            model=model,
            model_sha256=bundle_sha256(model),
            precision=precision,
            allow_download=allow_download,
            compute=bulk.compute(device),
            row_format=bulk.row_format or "parquet",
            features=bulk.features or "none",
            paths=bulk.paths(),
            options=options,
            attention=bulk.attention,
        )
        run_bulk(task, images, out, bulk, task.compute)
        return
    errors = ErrorReporter()
    files = list_image_files(fetch_images(map(Path, images), fetch, errors.report), errors, recursive=recursive)
    if not files:
        raise typer.Exit(2)
    controls = _parse_controls(files, region, regions, ordered=not unordered, relative=relative)
    drawings = {} if draw is None else _drawing_paths(draw, files)
    captioner = load(model, device=device, precision=precision, allow_download=allow_download)

    def process(jobs: "Sequence[ImageJob]") -> "list[list[GroundedCaption]]":
        return captioner.caption_images([ImageRequest(job.image, controls[job.file]) for job in jobs], options)

    settings = {
        "command": "caption",
        "model": bundle_sha256(model),
        "precision": precision,
        "regions": region if regions is None else sha256_file(regions),
        "unordered": unordered,
        **({"relative": True} if relative else {}),
        **asdict(options),
    }
    with open_run(files, errors, out=None if out is None else Path(out), settings=settings, as_json=as_json) as run:
        for result in run.process(process):
            file, captions = result.job.file, result.value
            if file in drawings:
                from sct.drawing.captions import draw_caption, save_drawing  # noqa: PLC0415

                save_drawing(draw_caption(result.job.image, captions[0]), drawings[file])
            with_order = unordered and controls[file] is not None
            run.write(_record(file, captions), partial(_print_captions, file, captions, with_order=with_order))


def _parse_controls(
    files: Sequence[Path], region: Sequence[str] | None, regions: Path | None, *, ordered: bool, relative: bool
) -> "dict[Path, Control | None]":
    """Control of each image; None: regions are detected."""
    from sct.regions.parsing import as_control, parse_region_set, read_controls  # noqa: PLC0415

    if region and regions is not None:
        raise InputError("got both --region and --regions: give one of them")
    if regions is not None:
        return dict(zip(files, read_controls(regions, files, ordered=ordered, relative=relative), strict=True))
    if region:
        sets = [parse_region_set(text, relative=relative) for text in region]
        return dict.fromkeys(files, as_control(sets, ordered=ordered, relative=relative))
    if relative:
        raise InputError("got --relative without --region or --regions: it says how their boxes are given")
    if not ordered:
        raise InputError("got --unordered without --region or --regions: detected regions are always ordered")
    return dict.fromkeys(files)


def _drawing_paths(draw: Path, files: Sequence[Path]) -> dict[Path, Path]:
    from sct.drawing.captions import drawing_paths  # noqa: PLC0415

    try:
        return drawing_paths(draw, files)
    except InputError as error:
        raise InputError(f"--draw {error}") from error


def _record(file: Path, captions: "Sequence[GroundedCaption]") -> dict[str, Any]:
    """The best caption, with the others under ``others``."""
    contents = [caption.as_dict() for caption in captions]
    best, *others = [{"caption": content.pop("text"), **content} for content in contents]
    return {"image": str(file), **best, **({"others": others} if others else {})}


def _print_captions(file: Path, captions: "Sequence[GroundedCaption]", *, with_order: bool) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from sct.drawing.terminal import format_caption, format_doubts, format_order  # noqa: PLC0415

    console = Console(soft_wrap=True, highlight=False)
    name, order = escape_controls(file), captions[0].order
    suffix = f"  ({format_order(order)})" if with_order and order is not None else ""
    if len(captions) == 1:
        line = Text(f"{name}: ").append_text(format_caption(captions[0])).append(suffix)
        console.print(line.append(format_doubts(captions[0])))
        return
    console.print(Text(f"{name}{suffix}"))
    for caption in captions:
        line = Text(f"  {caption.log_prob:7.2f}  ").append_text(format_caption(caption))
        console.print(line.append(format_doubts(caption)))
