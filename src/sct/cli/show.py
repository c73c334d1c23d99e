"""``sct show``: draw the captions of a dataset image with their groundings, or a model's under several controls."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from sct.cli.options import MovedImagesOption
from sct.cli.printing import print_line
from sct.data.dataset import Dataset
from sct.drawing.captions import save_drawing
from sct.drawing.dataset import draw_image, format_dataset_caption
from sct.errors import InputError


def show_command(
    dataset: Annotated[Path, typer.Argument(help="Dataset folder made by sct prepare.")],
    image: Annotated[str, typer.Argument(help="Image id.")],
    draw: Annotated[Path | None, typer.Option(help="File to write; default: IMAGE.grounded.png.")] = None,
    grid: Annotated[
        Path | None, typer.Option(help="File of a figure grid: the image captioned by --model under several controls.")
    ] = None,
    model: Annotated[str, typer.Option(help='With --grid: bundle folder, or "default".')] = "",
    control: Annotated[
        Literal["sequence", "set"], typer.Option(help="With --grid: ordered controls, or sets that the sorter orders.")
    ] = "sequence",
    panels: Annotated[int, typer.Option(min=1, max=24, help="With --grid: maximum number of controls.")] = 6,
    features: Annotated[
        Path | None, typer.Option(help="With --grid: region store that the model was trained with.")
    ] = None,
    images: MovedImagesOption = None,
) -> None:
    """Draw an image's captions: noun chunks and boxes share a colour, chunks without a region are grey (Figure 4).

    With --grid and --model, draw the model's captions of the image under several controls (Figures 5, 6, 9 and 10).
    """
    records = Dataset.open(dataset)
    record = records[image]
    console = Console(soft_wrap=True, highlight=False)
    if grid is not None or model or features is not None:
        if grid is None or not model or draw is not None:
            raise InputError("a figure grid needs a file and a model, and no --draw: give --grid FILE --model BUNDLE")
        _draw_grid(records, image, grid, model, images or (), control == "sequence", panels, features, console)
        return
    out = draw or Path(f"{Path(record.image_id).stem}.grounded.png")
    save_drawing(draw_image(record, records.load_image(record, images or ())), out)
    for caption in record.captions:
        console.print(format_dataset_caption(record, caption))
    print_line(out)


def _draw_grid(
    records: Dataset,
    image: str,
    out: Path,
    model: str,
    images: tuple[Path, ...] | list[Path],
    ordered: bool,
    panels: int,
    features: Path | None,
    console: Console,
) -> None:
    from sct.captioner.captioner import load  # noqa: PLC0415
    from sct.drawing.grid import draw_grid  # noqa: PLC0415
    from sct.drawing.terminal import format_caption  # noqa: PLC0415
    from sct.regions.sharded_store import open_store  # noqa: PLC0415

    store = None if features is None else open_store(features)
    loaded = records.load_image(records[image], images)
    found = draw_grid(load(Path(model)), records, image, loaded, ordered=ordered, count=panels, store=store)
    save_drawing(found.drawing, out)
    for caption in found.captions:
        console.print(format_caption(caption))
    print_line(out)
