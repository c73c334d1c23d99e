"""Captions as lines of words; those of a chunk stand white on its colour."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from sct.drawing.boxes import SupersampledLayer
from sct.drawing.palette import FAINT_INK, INK, PAPER, Colour

Font = ImageFont.ImageFont | ImageFont.FreeTypeFont

_FONT_SIZE = 20
_SMALL_FONT_SIZE = 14
_LINE_HEIGHT = 32.0
_SMALL_LINE_HEIGHT = 20.0
_UNDER_TITLE = 2.0
_BETWEEN_PARAGRAPHS = 8.0
_MARGIN = 16.0
_PADDING = 6.0
_ROUNDING = 6.0


class TextSpan(NamedTuple):
    """Words that follow each other and share a colour; without one they are ink on paper."""

    text: str
    colour: Colour | None = None
    tag: str = ""
    """What its boxes are tagged with, to be read before the words."""


class Paragraph(NamedTuple):
    """A caption in stretches, and what is written small above it."""

    stretches: tuple[TextSpan, ...]
    title: str = ""


class _Run(NamedTuple):
    """What stands on one line and is of one stretch."""

    x: float
    y: float
    width: float
    text: str
    colour: Colour | None
    tag: str


def draw_paragraphs(paragraphs: Sequence[Paragraph], width: int) -> Image.Image:
    """Write paragraphs on a sheet of this width, which becomes as high as they need."""
    font, small = ImageFont.load_default(size=_FONT_SIZE), ImageFont.load_default(size=_SMALL_FONT_SIZE)
    runs: list[_Run] = []
    titles: list[tuple[float, str]] = []
    y = _MARGIN
    for number, paragraph in enumerate(paragraphs):
        y += _BETWEEN_PARAGRAPHS if number else 0.0
        if paragraph.title:
            for line in _lines([TextSpan(paragraph.title)], small, small, width - 2 * _MARGIN):
                titles.append((y, line[0].text))
                y += _SMALL_LINE_HEIGHT
            y += _UNDER_TITLE
        for line in _lines(paragraph.stretches, font, small, width - 2 * _MARGIN):
            runs.extend(run._replace(x=run.x + _MARGIN, y=y) for run in line)
            y += _LINE_HEIGHT
    sheet = SupersampledLayer((width, round(y + _MARGIN)))
    for run in runs:
        if run.colour is not None:
            corners = (run.x, run.y + 2, run.x + run.width, run.y + _LINE_HEIGHT - 2)
            sheet.rectangle(corners, radius=_ROUNDING, fill=run.colour)
    drawn = sheet.over(Image.new("RGB", (width, round(y + _MARGIN)), PAPER))
    pen = ImageDraw.Draw(drawn)
    for y, title in titles:
        pen.text((_MARGIN, y + _SMALL_LINE_HEIGHT / 2), title, fill=FAINT_INK, font=small, anchor="lm")
    for run in runs:
        middle = run.y + _LINE_HEIGHT / 2
        x = run.x + (_PADDING if run.colour is not None else 0.0)
        if run.tag:
            pen.text((x, middle + 1), run.tag, fill=PAPER, font=small, anchor="lm")
            x += small.getlength(run.tag) + _PADDING
        pen.text((x, middle), run.text, fill=INK if run.colour is None else PAPER, font=font, anchor="lm")
    return drawn


def _lines(stretches: Sequence[TextSpan], font: Font, small: Font, width: float) -> Iterator[list[_Run]]:
    space = font.getlength(" ")
    line: list[_Run] = []
    x = 0.0
    for stretch in stretches:
        words = stretch.text.split()
        is_first = True
        while words:
            padding = 0.0 if stretch.colour is None else 2 * _PADDING
            tag = stretch.tag if is_first else ""
            if tag:
                padding += small.getlength(tag) + _PADDING
            fitting = _fitting(words, font, width - x - padding)
            # A chunk that fits on a line is not broken over two.
            is_better_below = stretch.colour is not None and fitting < len(words) <= _fitting(
                words, font, width - padding
            )
            if line and (not fitting or is_better_below):
                yield line
                line, x = [], 0.0
                continue
            if not fitting:  # a word that is longer than a line
                words[:1] = [part for part in _cut(words[0], font, width - padding) if part]
                fitting = 1
            text = " ".join(words[:fitting])
            run = _Run(x, 0.0, font.getlength(text) + padding, text, stretch.colour, tag)
            line.append(run)
            words = words[fitting:]
            x += run.width + space
            is_first = False
    if line:
        yield line


def _fitting(words: Sequence[str], font: Font, width: float) -> int:
    """How many of the words fit beside each other."""
    count = 0
    while count < len(words) and font.getlength(" ".join(words[: count + 1])) <= width:
        count += 1
    return count


def _cut(word: str, font: Font, width: float) -> tuple[str, str]:
    """Cut a word so that its beginning, at least a letter, fits."""
    end = len(word) - 1
    while end > 1 and font.getlength(word[:end]) > width:
        end -= 1
    return word[:end], word[end:]
