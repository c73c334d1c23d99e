"""Antialiased boxes with labels on an image."""

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from sct.drawing.palette import INK, PAPER, Color
from sct.limits import MAX_DRAWN_BOXES
from sct.regions import Box

logger = logging.getLogger(__name__)

_SUPERSAMPLING = 3


class SupersampledLayer:
    """A transparent layer that is drawn at a multiple of its size and downsampled (antialiasing)."""

    def __init__(self, size: tuple[int, int]) -> None:
        self._image = Image.new("RGBA", (size[0] * _SUPERSAMPLING, size[1] * _SUPERSAMPLING))
        self._draw = ImageDraw.Draw(self._image)

    def rectangle(
        self,
        corners: Sequence[float],
        *,
        radius: float = 0.0,
        fill: Color | None = None,
        outline: Color | None = None,
        width: float = 0.0,
        opacity: float = 1.0,
    ) -> None:
        """Draw a rectangle with rounded corners; the outline lies inside it."""
        x1, y1, x2, y2 = (round(value * _SUPERSAMPLING) for value in corners)
        alpha = round(255 * opacity)
        self._draw.rounded_rectangle(
            (x1, y1, max(x1, x2 - 1), max(y1, y2 - 1)),  # Pillow includes the last pixel
            radius=radius * _SUPERSAMPLING,
            fill=None if fill is None else (*fill, alpha),
            outline=None if outline is None else (*outline, alpha),
            width=round(width * _SUPERSAMPLING),
        )

    def composite_over(self, image: Image.Image) -> Image.Image:
        """Return the image with this layer composited over it."""
        return Image.alpha_composite(image.convert("RGBA"), self._image.reduce(_SUPERSAMPLING)).convert("RGB")


_LINE = 3.0
_HALO = 1.5
_SHADOW = 1.0
_SHADOW_OPACITY = 0.55
_SPACING = _LINE + _HALO + _SHADOW
_LABEL_SIZE = 15
_LABEL_PADDING = 5.0


class LabeledBox(NamedTuple):
    """A box to draw, in pixels of the drawing."""

    box: Box
    color: Color
    label: str
    """Text at a corner of the box; empty for none."""


def scale_box(box: Box, scale_x: float, scale_y: float) -> Box:
    """Scale a box from image pixels to drawing pixels."""
    return Box(box.x1 * scale_x, box.y1 * scale_y, box.x2 * scale_x, box.y2 * scale_y)


def draw_boxes(scene: Image.Image, boxes: Sequence[LabeledBox]) -> Image.Image:
    """Draw boxes and their labels on an image.

    Lines have a white and a dark border, so that they stand out on any image. Large boxes are drawn first; where sides
    of two boxes coincide, one moves inwards. Labels avoid each other if there is room.
    """
    if len(boxes) > MAX_DRAWN_BOXES:
        logger.warning("drawing the first %s of %s boxes", MAX_DRAWN_BOXES, f"{len(boxes):,}")
        boxes = boxes[:MAX_DRAWN_BOXES]
    layer = SupersampledLayer(scene.size)
    placed: list[tuple[LabeledBox, Box]] = []
    for each in sorted(boxes, key=lambda each: -each.box.area):
        placed.append((each, _avoid_sides(_clip_to_image(each.box, scene.size), [box for _, box in placed])))
    for each, (x1, y1, x2, y2) in placed:
        for margin, color, opacity in (
            (_LINE / 2 + _HALO + _SHADOW, INK, _SHADOW_OPACITY),
            (_LINE / 2 + _HALO, PAPER, 1.0),
            (_LINE / 2, each.color, 1.0),
        ):
            layer.rectangle(
                (x1 - margin, y1 - margin, x2 + margin, y2 + margin),
                radius=1 + margin,
                outline=color,
                width=2 * margin,
                opacity=opacity,
            )
    font = ImageFont.load_default(size=_LABEL_SIZE)
    labels = list(_place_labels(placed, scene.size, font))
    for each, corners in labels:
        x1, y1, x2, y2 = corners
        edge = _HALO + _SHADOW
        layer.rectangle(
            (x1 - edge, y1 - edge, x2 + edge, y2 + edge), radius=5 + edge, fill=INK, opacity=_SHADOW_OPACITY
        )
        layer.rectangle((x1 - _HALO, y1 - _HALO, x2 + _HALO, y2 + _HALO), radius=5 + _HALO, fill=PAPER)
        layer.rectangle(corners, radius=5, fill=each.color)
    drawing = layer.composite_over(scene)
    pen = ImageDraw.Draw(drawing)
    for each, (x1, y1, x2, y2) in labels:
        pen.text(((x1 + x2) / 2, (y1 + y2) / 2 + 0.5), each.label, fill=PAPER, font=font, anchor="mm")
    return drawing


def _clip_to_image(box: Box, size: tuple[int, int]) -> Box:
    """Move a box inwards so that its line is visible at the image border."""
    edge = _LINE / 2 + _HALO
    right, bottom = size[0] - edge, size[1] - edge
    x1, y1 = min(max(box.x1, edge), right), min(max(box.y1, edge), bottom)
    return Box(x1, y1, max(x1, min(box.x2, right)), max(y1, min(box.y2, bottom)))


def _avoid_sides(box: Box, others: Sequence[Box]) -> Box:
    """Shrink a box where a side coincides with the same side of another box, by a quarter of its size at most."""
    x1, x2 = _shift_sides(
        (box.x1, box.x2), [(other.x1, other.x2) for other in others if other.y1 < box.y2 and box.y1 < other.y2]
    )
    y1, y2 = _shift_sides(
        (box.y1, box.y2), [(other.y1, other.y2) for other in others if other.x1 < box.x2 and box.x1 < other.x2]
    )
    return Box(x1, y1, x2, y2)


def _shift_sides(sides: tuple[float, float], others: Sequence[tuple[float, float]]) -> tuple[float, float]:
    low, high = sides
    max_shift = (high - low) / 4
    shift = [0.0, 0.0]
    for end in (0, 1):
        inwards = 1 - 2 * end
        for _ in others:
            position = sides[end] + inwards * shift[end]
            if all(abs(position - other[end]) >= _SPACING for other in others) or shift[end] + _SPACING > max_shift:
                break
            shift[end] += _SPACING
    return low + shift[0], high - shift[1]


def _place_labels(
    placed: Sequence[tuple[LabeledBox, Box]], size: tuple[int, int], font: ImageFont.ImageFont | ImageFont.FreeTypeFont
) -> Iterator[tuple[LabeledBox, Box]]:
    """Choose a position for each label; small boxes, which have fewer, go first."""
    used: list[Box] = []
    small_boxes = [box for _, box in placed if min(box.x2 - box.x1, box.y2 - box.y1) < 3 * _LABEL_SIZE]
    for each, box in reversed(placed):
        if not each.label:
            continue
        height = _LABEL_SIZE + _LABEL_PADDING
        width = max(height, font.getlength(each.label) + 2 * _LABEL_PADDING)
        others = [other for other in small_boxes if other != box]
        position = min(
            (_keep_inside(corners, size) for corners in _candidate_positions(box, width, height)),
            key=lambda corners: (
                sum(_intersection_area(corners, other) for other in used)
                + sum(_intersection_area(corners, other) for other in others) / 4
            ),
        )
        used.append(position)
        yield each, position


def _candidate_positions(box: Box, width: float, height: float) -> Iterator[Box]:
    """Candidate positions of a label, best first: on the corners of a large box, around a small one."""
    gap = _LINE / 2 + 2 * _HALO
    on_corners = [(x - width / 2, y - height / 2) for y in (box.y1, box.y2) for x in (box.x1, box.x2)]
    around = [(x, y) for y in (box.y1 - gap - height, box.y2 + gap) for x in (box.x1 - gap, box.x2 + gap - width)] + [
        (x, box.y1) for x in (box.x1 - gap - width, box.x2 + gap)
    ]
    is_large = min(box.x2 - box.x1, box.y2 - box.y1) > 3 * height
    for x, y in on_corners + around if is_large else around + on_corners:
        yield Box(x, y, x + width, y + height)


def _keep_inside(corners: Box, size: tuple[int, int]) -> Box:
    edge = _HALO + _SHADOW
    x = max(edge, min(corners.x1, size[0] - edge - (corners.x2 - corners.x1)))
    y = max(edge, min(corners.y1, size[1] - edge - (corners.y2 - corners.y1)))
    return Box(x, y, x + corners.x2 - corners.x1, y + corners.y2 - corners.y1)


def _intersection_area(one: Box, other: Box) -> float:
    width = min(one.x2, other.x2) - max(one.x1, other.x1)
    height = min(one.y2, other.y2) - max(one.y1, other.y1)
    return max(0.0, width) * max(0.0, height)
