"""Captions as wrapped text; noun chunks are white on the colour of their region set."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from sct.drawing.boxes import SupersampledLayer
from sct.drawing.palette import INK, LIGHT_INK, PAPER, Color
from sct.errors import InputError
from sct.limits import MAX_DRAWING_HEIGHT

Font = ImageFont.ImageFont | ImageFont.FreeTypeFont

_FONT_SIZE = 20
_SMALL_FONT_SIZE = 14
_LINE_HEIGHT = 32.0
_SMALL_LINE_HEIGHT = 20.0
_TITLE_GAP = 2.0
_PARAGRAPH_GAP = 8.0
_MARGIN = 16.0
_PADDING = 6.0
_CORNER_RADIUS = 6.0


class TextSpan(NamedTuple):
    """Consecutive words of one background colour, or of none."""

    text: str
    color: Color | None = None
    label: str = ""
    """Label of its boxes, written before the words."""


class Paragraph(NamedTuple):
    """A caption as text spans, with an optional title above it."""

    spans: tuple[TextSpan, ...]
    title: str = ""


class _Run(NamedTuple):
    """Part of a span that is on one line."""

    x: float
    y: float
    width: float
    text: str
    color: Color | None
    label: str


def draw_paragraphs(paragraphs: Sequence[Paragraph], width: int) -> Image.Image:
    """Draw paragraphs on a sheet of this width; the height follows from the text."""
    font, small = ImageFont.load_default(size=_FONT_SIZE), ImageFont.load_default(size=_SMALL_FONT_SIZE)
    runs: list[_Run] = []
    titles: list[tuple[float, str]] = []
    y = _MARGIN
    for number, paragraph in enumerate(paragraphs):
        y += _PARAGRAPH_GAP if number else 0.0
        if paragraph.title:
            for line in _wrap([TextSpan(paragraph.title)], small, small, width - 2 * _MARGIN):
                titles.append((y, line[0].text))
                y += _SMALL_LINE_HEIGHT
            y += _TITLE_GAP
        for line in _wrap(paragraph.spans, font, small, width - 2 * _MARGIN):
            runs.extend(run._replace(x=run.x + _MARGIN, y=y) for run in line)
            y += _LINE_HEIGHT
            if y > MAX_DRAWING_HEIGHT:
                raise InputError(
                    f"got {len(paragraphs):,} captions that take more than {MAX_DRAWING_HEIGHT:,} pixels in a drawing: "
                    "expected fewer or shorter ones"
                )
    layer = SupersampledLayer((width, round(y + _MARGIN)))
    for run in runs:
        if run.color is not None:
            corners = (run.x, run.y + 2, run.x + run.width, run.y + _LINE_HEIGHT - 2)
            layer.rectangle(corners, radius=_CORNER_RADIUS, fill=run.color)
    drawing = layer.composite_over(Image.new("RGB", (width, round(y + _MARGIN)), PAPER))
    draw = ImageDraw.Draw(drawing)
    for y, title in titles:
        draw.text((_MARGIN, y + _SMALL_LINE_HEIGHT / 2), title, fill=LIGHT_INK, font=small, anchor="lm")
    for run in runs:
        middle = run.y + _LINE_HEIGHT / 2
        x = run.x + (_PADDING if run.color is not None else 0.0)
        if run.label:
            draw.text((x, middle + 1), run.label, fill=PAPER, font=small, anchor="lm")
            x += small.getlength(run.label) + _PADDING
        draw.text((x, middle), run.text, fill=INK if run.color is None else PAPER, font=font, anchor="lm")
    return drawing


def _wrap(spans: Sequence[TextSpan], font: Font, small: Font, width: float) -> Iterator[list[_Run]]:
    """Break spans into lines of runs."""
    space = font.getlength(" ")
    line: list[_Run] = []
    x = 0.0
    for span in spans:
        words = span.text.split()
        is_first = True
        while words:
            padding = 0.0 if span.color is None else 2 * _PADDING
            label = span.label if is_first else ""
            if label:
                padding += small.getlength(label) + _PADDING
            fitting = _count_fitting(words, font, width - x - padding)
            # do not break a chunk that fits on one line
            fits_next_line = span.color is not None and fitting < len(words) <= _count_fitting(
                words, font, width - padding
            )
            if line and (not fitting or fits_next_line):
                yield line
                line, x = [], 0.0
                continue
            if not fitting:  # a word longer than a line
                words[:1] = [part for part in _split_word(words[0], font, width - padding) if part]
                fitting = 1
            text = " ".join(words[:fitting])
            run = _Run(x, 0.0, font.getlength(text) + padding, text, span.color, label)
            line.append(run)
            words = words[fitting:]
            x += run.width + space
            is_first = False
    if line:
        yield line


def _count_fitting(words: Sequence[str], font: Font, width: float) -> int:
    """Return the number of leading words that fit into a width."""
    count = 0
    while count < len(words) and font.getlength(" ".join(words[: count + 1])) <= width:
        count += 1
    return count


def _split_word(word: str, font: Font, width: float) -> tuple[str, str]:
    """Split a word so that its first part, at least one letter, fits into a width."""
    end = max(1, bisect_right(range(1, len(word)), width, key=lambda end: font.getlength(word[:end])))
    return word[:end], word[end:]
