"""Draw an image's captions and their groundings: a chunk and its boxes share a colour (the paper's Figure 3)."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont, ImageOps, UnidentifiedImageError

from sct.data.records import AnnotatedImage, Caption
from sct.errors import InputError
from sct.language.tokens import tokenise

Colour = tuple[int, int, int]

PALETTE: tuple[Colour, ...] = (
    (214, 39, 40), (31, 119, 180), (44, 160, 44), (230, 126, 0), (148, 103, 189),
    (0, 150, 160), (227, 60, 150), (130, 90, 70), (150, 150, 0), (60, 60, 200),
)  # fmt: skip
"""Told apart on white and in a picture; white letters stand out on each."""
UNASSOCIATED: Colour = (130, 130, 130)
INK: Colour = (30, 30, 30)
PAPER: Colour = (255, 255, 255)
CANVAS: Colour = (236, 236, 236)

_LONG_SIDE = 640
_MARGIN = 12
_LINE = 26
_FONT_SIZE = 17
_OUTLINE = 3


class Piece(NamedTuple):
    """A stretch of a caption's text that lies in one chunk, or between chunks."""

    text: str
    chunk: int | None


def pieces(caption: Caption) -> list[Piece]:
    """Cut a caption into chunks and what stands between them; together they are its text.

    >>> from sct.data.records import Chunk
    >>> caption = Caption("A boy runs .", ("a", "boy", "runs"), (0, 0, None), (Chunk("boy", (0,)),))
    >>> [piece.text for piece in pieces(caption)]
    ['A boy', ' runs .']
    """
    tokens = tokenise(caption.text)
    if tuple(token.text for token in tokens) != caption.words:  # the words of reference mode have no place in the text
        labelled = zip(caption.words, caption.chunk_of_word, strict=True)
        return [
            Piece(" ".join(word for word, _ in run) + " ", chunk) for chunk, run in groupby(labelled, lambda w: w[1])
        ]
    found: list[Piece] = []
    place = 0
    labels = zip(tokens, caption.chunk_of_word, strict=True)
    for chunk, run in groupby(labels, lambda labelled: labelled[1]):
        if chunk is None:
            continue
        words = [token for token, _ in run]
        start, end = words[0].start, words[-1].end
        if start > place:
            found.append(Piece(caption.text[place:start], None))
        found.append(Piece(caption.text[start:end], chunk))
        place = end
    if place < len(caption.text):
        found.append(Piece(caption.text[place:], None))
    return found


def colours(image: AnnotatedImage) -> dict[tuple[int, ...], Colour]:
    """A colour for each region set that the captions talk about, in order of first mention; grey for no regions."""
    region_sets = dict.fromkeys(
        chunk.regions for caption in image.captions for chunk in caption.chunks or () if chunk.regions
    )
    return {regions: PALETTE[number % len(PALETTE)] for number, regions in enumerate(region_sets)} | {(): UNASSOCIATED}


def draw_image(image: AnnotatedImage, picture: Path | None) -> Image.Image:
    """Draw boxes on the picture, or on an empty canvas where there is none, and the captions under it."""
    scale = _LONG_SIDE / max(image.width, image.height)
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    scene = Image.new("RGB", size, CANVAS) if picture is None else _load(picture).resize(size)
    colour_of = colours(image)
    _draw_boxes(scene, image, scale, colour_of)
    text = _draw_captions(image, max(size[0], _LONG_SIDE), colour_of)
    sheet = Image.new("RGB", (text.width, scene.height + text.height), PAPER)
    sheet.paste(scene, (0, 0))
    sheet.paste(text, (0, scene.height))
    return sheet


def save_drawing(sheet: Image.Image, path: Path) -> None:
    """Write a drawing in the format that the file's ending names."""
    if Image.registered_extensions().get(path.suffix.lower()) not in Image.SAVE:
        raise InputError(f"{path} has no ending of a picture format: wanted .png, .jpg or the like")
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)


def _load(picture: Path) -> Image.Image:
    try:
        with Image.open(picture) as opened:
            return ImageOps.exif_transpose(opened).convert("RGB")
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise InputError(f"{picture} cannot be read as a picture: {error}") from error


def _draw_boxes(
    scene: Image.Image, image: AnnotatedImage, scale: float, colour_of: Mapping[tuple[int, ...], Colour]
) -> None:
    pen = ImageDraw.Draw(scene)
    font = ImageFont.load_default(size=13)
    outlines: dict[int, list[Colour]] = {}
    for region_set, colour in colour_of.items():
        for index in region_set:
            outlines.setdefault(index, []).append(colour)
    # Large boxes first, so that they do not hide small ones; one inside the other where sets share a region.
    by_size = sorted(outlines, key=lambda index: -image.regions[index].box.area)
    for index in by_size:
        x1, y1, x2, y2 = (value * scale for value in image.regions[index].box)
        for nesting, colour in enumerate(outlines[index]):
            inset = min(_OUTLINE * nesting, (x2 - x1) / 2, (y2 - y1) / 2)
            pen.rectangle((x1 + inset, y1 + inset, x2 - inset, y2 - inset), outline=colour, width=_OUTLINE)
    for index in by_size:
        name = image.regions[index].class_name
        if name:
            x1, y1 = (value * scale + 2 for value in image.regions[index].box[:2])
            width, height = pen.textbbox((0, 0), f" {name} ", font=font)[2:]
            x, y = min(x1, scene.width - width), min(y1, scene.height - height - 2)
            pen.rectangle((x, y, x + width, y + height + 2), fill=outlines[index][0])
            pen.text((x, y), f" {name} ", fill=PAPER, font=font)


class _Stretch(NamedTuple):
    text: str
    colour: Colour | None


def _stretches(caption: Caption, colour_of: Mapping[tuple[int, ...], Colour]) -> Iterator[_Stretch]:
    """Words that must not be broken over lines, each with its colour."""
    for piece in pieces(caption):
        colour = (
            None if piece.chunk is None or caption.chunks is None else colour_of[caption.chunks[piece.chunk].regions]
        )
        for word in piece.text.split():
            yield _Stretch(word, colour)


def _draw_captions(image: AnnotatedImage, width: int, colour_of: Mapping[tuple[int, ...], Colour]) -> Image.Image:
    font = ImageFont.load_default(size=_FONT_SIZE)
    space = font.getlength(" ")
    placed: list[tuple[float, float, _Stretch]] = []
    y = float(_MARGIN)
    for caption in image.captions:
        x = float(_MARGIN)
        for stretch in _stretches(caption, colour_of):
            length = font.getlength(stretch.text)
            if x + length > width - _MARGIN and x > _MARGIN:
                x, y = float(_MARGIN), y + _LINE
            placed.append((x, y, stretch))
            x += length + space
        y += _LINE + _MARGIN / 2
    sheet = Image.new("RGB", (width, round(y) + _MARGIN), PAPER)
    pen = ImageDraw.Draw(sheet)
    for x, y, stretch in placed:
        if stretch.colour is not None:
            box = (x - space / 2, y - 1, x + font.getlength(stretch.text) + space / 2, y + _LINE - 4)
            pen.rectangle(box, fill=stretch.colour)
        pen.text((x, y), stretch.text, fill=INK if stretch.colour is None else PAPER, font=font)
    return sheet
