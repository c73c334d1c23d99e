"""Draw grounded captions: the image with the boxes of the control, and the caption below with coloured noun chunks."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log
from pathlib import Path

from PIL import Image

from sct.captioner.grounded_caption import GroundedCaption
from sct.drawing.boxes import LabeledBox, draw_boxes, scale_box
from sct.drawing.palette import CANVAS, PAPER, UNGROUNDED, set_color
from sct.drawing.text import Paragraph, TextSpan, draw_paragraphs
from sct.errors import InputError
from sct.regions.images import LoadedImage
from sct.storage.atomic import name_file_in_errors

_LONG_SIDES = (720, 600, 480)
"""Long side in pixels of an image drawn in one, two or more columns."""
_MIN_SHORT_SIDE = 200
"""Minimum short side; a very wide or tall image is enlarged for it, up to ``_MAX_SIDE``."""
_MAX_SIDE = 1600
_MIN_PANEL_WIDTH = 420
_TYPICAL_TEXT_HEIGHT = 100
_GAP = 16
_ASPECT_RATIO = 1.9
"""Target width / height of a sheet of several panels."""
_NEAREST_FROM = 6.0
"""Scale above which pixels are drawn as squares (nearest neighbour) instead of being blurred."""


@dataclass(frozen=True, slots=True)
class TitledCaption:
    """A caption to draw, with a title above it."""

    caption: GroundedCaption
    title: str = ""


def draw_caption(image: LoadedImage, caption: GroundedCaption, *, title: str = "") -> Image.Image:
    """Draw one caption; number and colour of a region set follow its position in the control."""
    return draw_captions(image, [TitledCaption(caption, title)])


def draw_captions(image: LoadedImage, captions: Sequence[TitledCaption]) -> Image.Image:
    """Draw captions of one image under several controls, one panel each."""
    if not captions:
        raise InputError(f"got no caption of {image.name}, expected at least one")
    columns = _columns(image, len(captions))
    scene = _resize(image, columns)
    panels = [_panel(scene, image, caption) for caption in captions]
    return panels[0] if len(panels) == 1 else _tile(panels, columns)


def save_drawing(drawing: Image.Image, path: Path) -> None:
    """Write a drawing in the format of the file's extension."""
    if Image.registered_extensions().get(path.suffix.lower()) not in Image.SAVE:
        raise InputError(f"got {path}, whose extension is no image format, expected .png, .jpg or the like")
    path.parent.mkdir(parents=True, exist_ok=True)
    with name_file_in_errors(path):
        try:
            drawing.save(path)
        except (OSError, ValueError) as error:
            if getattr(error, "errno", None) is not None:  # of the system, such as a full disk
                raise
            raise InputError(f"{path} cannot be written ({error}): expected .png, .jpg or the like") from error


def drawing_paths(out: Path, files: Sequence[Path]) -> dict[Path, Path]:
    """Output path for each image file: ``out`` itself for one image, otherwise ``out/NAME.grounded.png``."""
    Image.init()
    is_image = Image.registered_extensions().get(out.suffix.lower()) in Image.SAVE
    if len(files) == 1 and out.suffix and not out.is_dir():
        if not is_image:
            raise InputError(f"{out} has no suffix of an image format, expected .png, .jpg or the like")
        if out.exists() and files[0].exists() and out.samefile(files[0]):
            raise InputError(f"{out} would overwrite the image: name another file")
        return {files[0]: out}
    if out.is_file() or (is_image and not out.is_dir()):
        raise InputError(f"{out} is a file, but there are {len(files)} images: name a folder")
    paths: dict[Path, Path] = {}
    taken: set[Path] = set()
    for file in dict.fromkeys(files):
        number = 1
        while (path := out / f"{file.stem}{f'-{number}' if number > 1 else ''}.grounded.png") in taken:
            number += 1
        paths[file] = path
        taken.add(path)
    return paths


def _size(image: LoadedImage, columns: int) -> tuple[int, int]:
    """Return width and height in pixels of the drawn image."""
    long, short = max(image.width, image.height), min(image.width, image.height)
    long_side = _LONG_SIDES[min(columns, len(_LONG_SIDES)) - 1]
    scale = max(long_side / long, min(_MIN_SHORT_SIDE / short, _MAX_SIDE / long))
    return max(1, round(image.width * scale)), max(1, round(image.height * scale))


def _columns(image: LoadedImage, panels: int) -> int:
    """Return the number of columns with the best aspect ratio and the fewest empty cells."""

    def cost(columns: int) -> float:
        rows = ceil(panels / columns)
        width, height = _size(image, columns)
        ratio = columns * max(width, _MIN_PANEL_WIDTH) / (rows * (height + _TYPICAL_TEXT_HEIGHT))
        return abs(log(ratio / _ASPECT_RATIO)) + columns * rows - panels

    return min(range(1, panels + 1), key=cost)


def _resize(image: LoadedImage, columns: int) -> Image.Image:
    scene = Image.fromarray(image.pixels)
    size = _size(image, columns)
    is_pixelated = size[0] > _NEAREST_FROM * scene.width
    return scene.resize(size, Image.Resampling.NEAREST if is_pixelated else Image.Resampling.LANCZOS)


def _panel(scene: Image.Image, image: LoadedImage, titled: TitledCaption) -> Image.Image:
    boxed = draw_boxes(scene, _labeled_boxes(titled.caption, scene.width / image.width, scene.height / image.height))
    width = max(scene.width, _MIN_PANEL_WIDTH)
    text = draw_paragraphs([Paragraph(_text_spans(titled.caption), titled.title)], width)
    panel = Image.new("RGB", (width, scene.height + text.height), PAPER)
    if width > scene.width:
        panel.paste(CANVAS, (0, 0, width, scene.height))
    panel.paste(boxed, ((width - scene.width) // 2, 0))
    panel.paste(text, (0, scene.height))
    return panel


def _labeled_boxes(caption: GroundedCaption, scale_x: float, scale_y: float) -> list[LabeledBox]:
    if caption.control is None:
        return []
    return [
        LabeledBox(scale_box(region.box, scale_x, scale_y), set_color(number), str(number + 1))
        for number, region_set in enumerate(caption.control.region_sets)
        for region in region_set.regions
    ]


def _text_spans(caption: GroundedCaption) -> tuple[TextSpan, ...]:
    """Split a caption into noun chunks and the words between them; chunks are grey without a control."""
    spans: list[TextSpan] = []
    position = 0
    for chunk in sorted(caption.chunks, key=lambda chunk: chunk.words):
        start, end = chunk.words
        spans.append(TextSpan(" ".join(word.text for word in caption.words[position:start])))
        text = " ".join(word.text for word in caption.words[start:end])
        if caption.control is None:
            spans.append(TextSpan(text, UNGROUNDED))
        else:
            spans.append(TextSpan(text, set_color(chunk.region_set), str(chunk.region_set + 1)))
        position = end
    spans.append(TextSpan(" ".join(word.text for word in caption.words[position:])))
    return tuple(span for span in spans if span.text)


def _tile(panels: Sequence[Image.Image], columns: int) -> Image.Image:
    """Arrange panels of equal width in rows; the panels of a row get the same height."""
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
