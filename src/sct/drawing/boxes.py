"""Shapes without jagged edges: drawn large on a clear sheet and made small.

Boxes on an image, each with a tag, that stand out whatever the image shows.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from sct.drawing.palette import INK, PAPER, Colour
from sct.regions import Box

_TIMES = 3


class SupersampledLayer:
    """A clear sheet over an image; what is drawn later covers what was drawn before."""

    def __init__(self, size: tuple[int, int]) -> None:
        self._large = Image.new("RGBA", (size[0] * _TIMES, size[1] * _TIMES))
        self._pen = ImageDraw.Draw(self._large)

    def rectangle(
        self,
        corners: Sequence[float],
        *,
        radius: float = 0.0,
        fill: Colour | None = None,
        outline: Colour | None = None,
        width: float = 0.0,
        opacity: float = 1.0,
    ) -> None:
        """Draw a rectangle with round corners; its outline lies inside of it."""
        x1, y1, x2, y2 = (round(value * _TIMES) for value in corners)
        alpha = round(255 * opacity)
        self._pen.rounded_rectangle(
            (x1, y1, max(x1, x2 - 1), max(y1, y2 - 1)),  # Pillow counts the last pixel in
            radius=radius * _TIMES,
            fill=None if fill is None else (*fill, alpha),
            outline=None if outline is None else (*outline, alpha),
            width=round(width * _TIMES),
        )

    def over(self, image: Image.Image) -> Image.Image:
        """The image with the sheet laid on it."""
        return Image.alpha_composite(image.convert("RGBA"), self._large.reduce(_TIMES)).convert("RGB")


_LINE = 3.0
_HALO = 1.5
_SHADE = 1.0
_SHADE_OPACITY = 0.55
_NESTING = _LINE + _HALO + _SHADE
_TAG_SIZE = 15
_TAG_PADDING = 5.0


class Mark(NamedTuple):
    """A box to be drawn, in the pixels of the drawing."""

    box: Box
    colour: Colour
    tag: str
    """Written at a corner of it; nothing where empty."""


def scaled(box: Box, across: float, down: float) -> Box:
    """A box of the image in the pixels of a drawing of it."""
    return Box(box.x1 * across, box.y1 * down, box.x2 * across, box.y2 * down)


def draw_marks(scene: Image.Image, marks: Sequence[Mark]) -> Image.Image:
    """Draw boxes and their tags on an image.

    A line of colour lies between two white ones and two dark ones, one of which differs from what is beneath. Large
    boxes come first, so that they do not hide small ones; where two sides fall together, one moves inwards. Tags keep
    clear of each other where there is room.
    """
    sheet = SupersampledLayer(scene.size)
    placed: list[tuple[Mark, Box]] = []
    for mark in sorted(marks, key=lambda mark: -mark.box.area):
        placed.append((mark, _beside_others(_within(mark.box, scene.size), [box for _, box in placed])))
    for mark, (x1, y1, x2, y2) in placed:
        for beyond, colour, opacity in (
            (_LINE / 2 + _HALO + _SHADE, INK, _SHADE_OPACITY),
            (_LINE / 2 + _HALO, PAPER, 1.0),
            (_LINE / 2, mark.colour, 1.0),
        ):
            sheet.rectangle(
                (x1 - beyond, y1 - beyond, x2 + beyond, y2 + beyond),
                radius=1 + beyond,
                outline=colour,
                width=2 * beyond,
                opacity=opacity,
            )
    font = ImageFont.load_default(size=_TAG_SIZE)
    tags = list(_placed_tags(placed, scene.size, font))
    for mark, corners in tags:
        x1, y1, x2, y2 = corners
        edge = _HALO + _SHADE
        sheet.rectangle((x1 - edge, y1 - edge, x2 + edge, y2 + edge), radius=5 + edge, fill=INK, opacity=_SHADE_OPACITY)
        sheet.rectangle((x1 - _HALO, y1 - _HALO, x2 + _HALO, y2 + _HALO), radius=5 + _HALO, fill=PAPER)
        sheet.rectangle(corners, radius=5, fill=mark.colour)
    drawn = sheet.over(scene)
    pen = ImageDraw.Draw(drawn)
    for mark, (x1, y1, x2, y2) in tags:
        pen.text(((x1 + x2) / 2, (y1 + y2) / 2 + 0.5), mark.tag, fill=PAPER, font=font, anchor="mm")
    return drawn


def _within(box: Box, size: tuple[int, int]) -> Box:
    """Moved in, so that the line of a box that touches the image's edge is seen in full."""
    edge = _LINE / 2 + _HALO
    right, bottom = size[0] - edge, size[1] - edge
    x1, y1 = min(max(box.x1, edge), right), min(max(box.y1, edge), bottom)
    return Box(x1, y1, max(x1, min(box.x2, right)), max(y1, min(box.y2, bottom)))


def _beside_others(box: Box, others: Sequence[Box]) -> Box:
    """Made smaller where a side would lie on the same side of another box and hide it; never by much."""
    x1, x2 = _moved_apart(
        (box.x1, box.x2), [(other.x1, other.x2) for other in others if other.y1 < box.y2 and box.y1 < other.y2]
    )
    y1, y2 = _moved_apart(
        (box.y1, box.y2), [(other.y1, other.y2) for other in others if other.x1 < box.x2 and box.x1 < other.x2]
    )
    return Box(x1, y1, x2, y2)


def _moved_apart(sides: tuple[float, float], others: Sequence[tuple[float, float]]) -> tuple[float, float]:
    low, high = sides
    most = (high - low) / 4
    moved = [0.0, 0.0]
    for end in (0, 1):
        inwards = 1 - 2 * end
        for _ in others:
            place = sides[end] + inwards * moved[end]
            if all(abs(place - other[end]) >= _NESTING for other in others) or moved[end] + _NESTING > most:
                break
            moved[end] += _NESTING
    return low + moved[0], high - moved[1]


def _placed_tags(
    placed: Sequence[tuple[Mark, Box]], size: tuple[int, int], font: ImageFont.ImageFont | ImageFont.FreeTypeFont
) -> Iterator[tuple[Mark, Box]]:
    """Find a place for each tag, those of small boxes first: they have fewer."""
    taken: list[Box] = []
    small_boxes = [box for _, box in placed if min(box.x2 - box.x1, box.y2 - box.y1) < 3 * _TAG_SIZE]
    for mark, box in reversed(placed):
        if not mark.tag:
            continue
        height = _TAG_SIZE + _TAG_PADDING
        width = max(height, font.getlength(mark.tag) + 2 * _TAG_PADDING)
        others = [other for other in small_boxes if other != box]
        place = min(
            (_moved_in(corners, size) for corners in _places(box, width, height)),
            key=lambda corners: (
                sum(_overlap(corners, other) for other in taken) + sum(_overlap(corners, other) for other in others) / 4
            ),
        )
        taken.append(place)
        yield mark, place


def _places(box: Box, width: float, height: float) -> Iterator[Box]:
    """Where a tag may go, the best first: on the corners of a large box, around a small one."""
    away = _LINE / 2 + 2 * _HALO
    on_corners = [(x - width / 2, y - height / 2) for y in (box.y1, box.y2) for x in (box.x1, box.x2)]
    around = [
        (x, y) for y in (box.y1 - away - height, box.y2 + away) for x in (box.x1 - away, box.x2 + away - width)
    ] + [(x, box.y1) for x in (box.x1 - away - width, box.x2 + away)]
    is_large = min(box.x2 - box.x1, box.y2 - box.y1) > 3 * height
    for x, y in on_corners + around if is_large else around + on_corners:
        yield Box(x, y, x + width, y + height)


def _moved_in(corners: Box, size: tuple[int, int]) -> Box:
    edge = _HALO + _SHADE
    x = max(edge, min(corners.x1, size[0] - edge - (corners.x2 - corners.x1)))
    y = max(edge, min(corners.y1, size[1] - edge - (corners.y2 - corners.y1)))
    return Box(x, y, x + corners.x2 - corners.x1, y + corners.y2 - corners.y1)


def _overlap(one: Box, other: Box) -> float:
    width = min(one.x2, other.x2) - max(one.x1, other.x1)
    height = min(one.y2, other.y2) - max(one.y1, other.y1)
    return max(0.0, width) * max(0.0, height)
