"""Draw grounded captions: the image with the boxes of the control, and under it words that wear their colours."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log

from PIL import Image

from sct.captioner.grounded_caption import GroundedCaption
from sct.drawing.boxes import Mark, draw_marks, scaled
from sct.drawing.palette import CANVAS, PAPER, UNASSOCIATED, colour_of_set
from sct.drawing.text import Paragraph, TextSpan, draw_paragraphs
from sct.errors import InputError
from sct.regions.images import LoadedImage

_LONG_SIDES = (720, 600, 480)
"""Of an image as it is drawn: alone, in two columns, in more."""
_SHORT_SIDE = 200
"""What a very wide or high image is made larger for, as far as the next line lets it."""
_LONGEST_SIDE = 1600
_PANEL_WIDTH = 420
"""The least: words under a narrow image need room."""
_USUAL_TEXT_HEIGHT = 100
_GAP = 16
_SHAPE = 1.9
"""Width to height that several panels together come near to."""
_PIXELS_SHOWN_FROM = 6.0
"""An image made that much larger shows its pixels as squares; a blur would look like a fault."""


@dataclass(frozen=True, slots=True)
class DrawnCaption:
    """A caption to be drawn, with what is written small above it."""

    caption: GroundedCaption
    title: str = ""


def draw_caption(image: LoadedImage, caption: GroundedCaption, *, title: str = "") -> Image.Image:
    """Draw one caption; a region set has the number and the colour of its place in the control."""
    return draw_captions(image, [DrawnCaption(caption, title)])


def draw_captions(image: LoadedImage, captions: Sequence[DrawnCaption]) -> Image.Image:
    """Draw captions of the same image, made under several controls: a panel for each."""
    if not captions:
        raise InputError(f"there is no caption of {image.name} to draw: expected at least one")
    columns = _columns(image, len(captions))
    scene = _scene(image, columns)
    panels = [_panel(scene, image, caption) for caption in captions]
    return panels[0] if len(panels) == 1 else _side_by_side(panels, columns)


def _size(image: LoadedImage, columns: int) -> tuple[int, int]:
    """How large the image is drawn."""
    long, short = max(image.width, image.height), min(image.width, image.height)
    expected = _LONG_SIDES[min(columns, len(_LONG_SIDES)) - 1]
    scale = max(expected / long, min(_SHORT_SIDE / short, _LONGEST_SIDE / long))
    return max(1, round(image.width * scale)), max(1, round(image.height * scale))


def _columns(image: LoadedImage, panels: int) -> int:
    """In how many columns panels have a good shape together and leave no place empty, if that can be had."""

    def fault(columns: int) -> float:
        rows = ceil(panels / columns)
        width, height = _size(image, columns)
        shape = columns * max(width, _PANEL_WIDTH) / (rows * (height + _USUAL_TEXT_HEIGHT))
        return abs(log(shape / _SHAPE)) + columns * rows - panels

    return min(range(1, panels + 1), key=fault)


def _scene(image: LoadedImage, columns: int) -> Image.Image:
    scene = Image.fromarray(image.pixels)
    size = _size(image, columns)
    is_squares = size[0] > _PIXELS_SHOWN_FROM * scene.width
    return scene.resize(size, Image.Resampling.NEAREST if is_squares else Image.Resampling.LANCZOS)


def _panel(scene: Image.Image, image: LoadedImage, drawn: DrawnCaption) -> Image.Image:
    marked = draw_marks(scene, _marks(drawn.caption, scene.width / image.width, scene.height / image.height))
    width = max(scene.width, _PANEL_WIDTH)
    text = draw_paragraphs([Paragraph(_stretches(drawn.caption), drawn.title)], width)
    panel = Image.new("RGB", (width, scene.height + text.height), PAPER)
    if width > scene.width:
        panel.paste(CANVAS, (0, 0, width, scene.height))
    panel.paste(marked, ((width - scene.width) // 2, 0))
    panel.paste(text, (0, scene.height))
    return panel


def _marks(caption: GroundedCaption, across: float, down: float) -> list[Mark]:
    if caption.control is None:
        return []
    return [
        Mark(scaled(region.box, across, down), colour_of_set(number), str(number + 1))
        for number, region_set in enumerate(caption.control.region_sets)
        for region in region_set.regions
    ]


def _stretches(caption: GroundedCaption) -> tuple[TextSpan, ...]:
    """Chunks and what stands between them; a chunk is grey where there are no boxes that it could point to."""
    stretches: list[TextSpan] = []
    place = 0
    for chunk in sorted(caption.chunks, key=lambda chunk: chunk.words):
        start, end = chunk.words
        stretches.append(TextSpan(" ".join(word.text for word in caption.words[place:start])))
        text = " ".join(word.text for word in caption.words[start:end])
        if caption.control is None:
            stretches.append(TextSpan(text, UNASSOCIATED))
        else:
            stretches.append(TextSpan(text, colour_of_set(chunk.region_set), str(chunk.region_set + 1)))
        place = end
    stretches.append(TextSpan(" ".join(word.text for word in caption.words[place:])))
    return tuple(stretch for stretch in stretches if stretch.text)


def _side_by_side(panels: Sequence[Image.Image], columns: int) -> Image.Image:
    """Put panels of one width on a sheet, row by row; those of a row are made equally high."""
    width = panels[0].width
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    heights = [max(panel.height for panel in row) for row in rows]
    sheet = Image.new("RGB", (columns * (width + _GAP) + _GAP, sum(heights) + (len(rows) + 1) * _GAP), CANVAS)
    y = _GAP
    for row, height in zip(rows, heights, strict=True):
        for column, panel in enumerate(row):
            x = _GAP + column * (width + _GAP)
            sheet.paste(PAPER, (x, y, x + width, y + height))
            sheet.paste(panel, (x, y))
        y += height + _GAP
    return sheet
