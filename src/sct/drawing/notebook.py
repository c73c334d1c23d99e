"""Grounded captions in a notebook: the drawing of ``sct caption --draw``, shown where a cell ends with it."""

import io
from base64 import b64encode
from dataclasses import dataclass
from html import escape

from PIL import Image

from sct.captioner.encode import opened
from sct.captioner.grounded_caption import GroundedCaption
from sct.captioner.requests import ImageSource
from sct.drawing.captions import DrawnCaption, draw_captions
from sct.errors import InputError
from sct.regions.images import LoadedImage


@dataclass(frozen=True, slots=True)
class ShownCaptions:
    """Captions of one image that a notebook draws; ``image`` is the drawing for any other use."""

    source: LoadedImage
    captions: tuple[DrawnCaption, ...]

    @property
    def image(self) -> Image.Image:
        """The image with the boxes of each control, and under it the words in their colours."""
        return draw_captions(self.source, self.captions)

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.image.save(file, "PNG")
        return file.getvalue()

    def _repr_html_(self) -> str:
        """The drawing no wider than the notebook, with the sentences for who does not see it."""
        text = escape("; ".join(drawn.caption.text for drawn in self.captions), quote=True)
        data = b64encode(self._repr_png_()).decode("ascii")
        return f'<img alt="{text}" style="max-width: 100%; height: auto" src="data:image/png;base64,{data}">'


def show(image: ImageSource, *captions: GroundedCaption, titles: tuple[str, ...] = ()) -> ShownCaptions:
    """Draw captions of an image in a notebook, side by side where they are several.

    ``titles`` are written small above the captions, as far as there are any.
    """
    if not captions:
        raise InputError("there is no caption to show: expected at least one after the image")
    above = (*titles, *[""] * len(captions))
    drawn = tuple(DrawnCaption(caption, title) for caption, title in zip(captions, above, strict=False))
    return ShownCaptions(opened(image), drawn)
