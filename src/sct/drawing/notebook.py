"""Show grounded captions in a notebook, drawn as by ``sct caption --draw``."""

import io
from base64 import b64encode
from dataclasses import dataclass
from html import escape

from PIL import Image

from sct.captioner.encode import as_image
from sct.captioner.grounded_caption import GroundedCaption
from sct.captioner.requests import ImageInput
from sct.drawing.captions import TitledCaption, draw_captions
from sct.errors import InputError
from sct.regions.images import LoadedImage


@dataclass(frozen=True, slots=True)
class ShownCaptions:
    """Captions of one image with a rich notebook representation."""

    source: LoadedImage
    captions: tuple[TitledCaption, ...]

    @property
    def image(self) -> Image.Image:
        """The drawing, one panel per caption."""
        return draw_captions(self.source, self.captions)

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.image.save(file, "PNG")
        return file.getvalue()

    def _repr_html_(self) -> str:
        """Return an ``img`` element no wider than the cell, with the captions as alternative text."""
        text = escape("; ".join(each.caption.text for each in self.captions), quote=True)
        data = b64encode(self._repr_png_()).decode("ascii")
        return f'<img alt="{text}" style="max-width: 100%; height: auto" src="data:image/png;base64,{data}">'


def show(image: ImageInput, *captions: GroundedCaption, titles: tuple[str, ...] = ()) -> ShownCaptions:
    """Draw captions of an image in a notebook, one panel each.

    ``titles`` are written above the first captions.
    """
    if not captions:
        raise InputError("got no caption, expected at least one after the image")
    padded = (*titles, *[""] * len(captions))
    titled = tuple(TitledCaption(caption, title) for caption, title in zip(captions, padded, strict=False))
    return ShownCaptions(as_image(image), titled)
