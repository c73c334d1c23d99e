"""Shapes without jagged edges: drawn large on a clear sheet and made small."""

from collections.abc import Sequence

from PIL import Image, ImageDraw

from sct.studio.palette import Colour

_TIMES = 3


class SmoothSheet:
    """A clear sheet over a picture; what is drawn later covers what was drawn before."""

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

    def over(self, picture: Image.Image) -> Image.Image:
        """The picture with the sheet laid on it."""
        return Image.alpha_composite(picture.convert("RGBA"), self._large.reduce(_TIMES)).convert("RGB")
