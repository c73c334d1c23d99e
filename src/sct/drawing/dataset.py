"""Draw an image's captions and their groundings: a chunk and its boxes share a colour (the paper's Figure 3)."""

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from sct.data.records import AnnotatedImage, Caption
from sct.drawing.boxes import Mark, draw_marks, scaled
from sct.drawing.palette import CANVAS, PALETTE, PAPER, UNASSOCIATED, Colour
from sct.drawing.text import Paragraph, TextSpan, draw_paragraphs
from sct.errors import InputError
from sct.language.tokenizer import tokenise
from sct.regions.images import load_image

__all__ = [
    "CANVAS", "PALETTE", "UNASSOCIATED", "Colour", "Piece", "colours", "draw_image", "pieces", "save_drawing",
]  # fmt: skip

_LONG_SIDE = 640


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


def draw_image(image: AnnotatedImage, path: Path | None) -> Image.Image:
    """Draw boxes on the image, or on an empty canvas where there is none, and the captions under it."""
    scale = _LONG_SIDE / max(image.width, image.height)
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    empty = Image.new("RGB", size, CANVAS)
    scene = empty if path is None else Image.fromarray(load_image(path).pixels).resize(size)
    colour_of = colours(image)
    scene = draw_marks(scene, _marks(image, scale, colour_of))
    text = draw_paragraphs(
        [Paragraph(_stretches(caption, colour_of)) for caption in image.captions], max(size[0], _LONG_SIDE)
    )
    sheet = Image.new("RGB", (text.width, scene.height + text.height), PAPER)
    sheet.paste(scene, (0, 0))
    sheet.paste(text, (0, scene.height))
    return sheet


def save_drawing(sheet: Image.Image, path: Path) -> None:
    """Write a drawing in the format that the file's ending names."""
    if Image.registered_extensions().get(path.suffix.lower()) not in Image.SAVE:
        raise InputError(f"{path} has no ending of an image format: expected .png, .jpg or the like")
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)


def _marks(image: AnnotatedImage, scale: float, colour_of: Mapping[tuple[int, ...], Colour]) -> list[Mark]:
    """A mark for each region of each set; one that several sets share has the name of its class once."""
    marks: dict[int, list[Mark]] = {}
    for region_set, colour in colour_of.items():
        for index in region_set:
            region, others = image.regions[index], marks.setdefault(index, [])
            name = "" if others else region.class_name or ""
            others.append(Mark(scaled(region.box, scale, scale), colour, name))
    return [mark for each in marks.values() for mark in each]


def _stretches(caption: Caption, colour_of: Mapping[tuple[int, ...], Colour]) -> tuple[TextSpan, ...]:
    return tuple(
        TextSpan(
            piece.text,
            None if piece.chunk is None or caption.chunks is None else colour_of[caption.chunks[piece.chunk].regions],
        )
        for piece in pieces(caption)
    )
