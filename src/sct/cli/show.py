"""``sct show``: draw the captions of a dataset image with their groundings."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sct.cli.options import MovedImagesOption
from sct.cli.printing import print_line
from sct.data.dataset import Dataset
from sct.drawing.captions import save_drawing
from sct.drawing.dataset import draw_image, format_dataset_caption


def show_command(
    dataset: Annotated[Path, typer.Argument(help="Dataset folder made by sct prepare.")],
    image: Annotated[str, typer.Argument(help="Image id.")],
    draw: Annotated[Path | None, typer.Option(help="File to write; default: IMAGE.grounded.png.")] = None,
    images: MovedImagesOption = None,
) -> None:
    """Draw an image's captions: noun chunks and boxes share a colour, chunks without a region are grey (Figure 3)."""
    records = Dataset.open(dataset)
    record = records[image]
    out = draw or Path(f"{Path(record.image_id).stem}.grounded.png")
    save_drawing(draw_image(record, records.load_image(record, images or ())), out)
    console = Console(soft_wrap=True, highlight=False)
    for caption in record.captions:
        console.print(format_dataset_caption(record, caption))
    print_line(out)
