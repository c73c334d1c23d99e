"""``sct show``: an image's captions with their groundings."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from sct.data.dataset import Dataset
from sct.drawing.dataset import colours, draw_image, pieces, save_drawing


def show_command(
    dataset: Annotated[Path, typer.Argument(help="A folder made by sct prepare.")],
    image: Annotated[str, typer.Argument(help="Id of an image in it.")],
    draw: Annotated[Path | None, typer.Option(help="LoadedImage to write; IMAGE.grounded.png if not given.")] = None,
    images: Annotated[Path | None, typer.Option(help="Folder of the images, if they have moved.")] = None,
) -> None:
    """Draw an image's captions: chunk and box in one colour, chunks without a region grey (the paper's Figure 3)."""
    opened = Dataset.open(dataset)
    found = opened[image]
    out = draw or Path(f"{Path(found.image_id).stem}.grounded.png")
    save_drawing(draw_image(found, opened.image_path(found, images)), out)
    console, colour_of = Console(soft_wrap=True, highlight=False), colours(found)
    for caption in found.captions:
        line = Text()
        for piece in pieces(caption):
            if piece.chunk is None or caption.chunks is None:
                line.append(piece.text)
            else:
                red, green, blue = colour_of[caption.chunks[piece.chunk].regions]
                line.append(f"[{piece.text}]", style=f"bold rgb({red},{green},{blue})")
        console.print(line)
    console.print(out)
