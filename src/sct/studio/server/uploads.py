"""Pictures as strangers send them, decoded with care."""

import struct
import zlib
from hashlib import sha256
from io import BytesIO

from PIL import Image, UnidentifiedImageError

from sct.errors import InputError
from sct.regions.pictures import Picture, open_picture
from sct.studio.server.refusals import Refusal

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "AVIF", "BMP")
"""What browsers show, too: fewer decoders that a stranger can feed."""
# What Pillow's readers are known to raise on broken headers.
_BROKEN = (
    ArithmeticError, EOFError, LookupError, MemoryError, OSError, RuntimeError, SyntaxError, TypeError, ValueError,
    struct.error, zlib.error,
)  # fmt: skip
_WANTED = "wanted a JPEG, PNG, WebP, GIF, AVIF or BMP picture"


def picture_id(data: bytes) -> str:
    """By what a picture is named from then on."""
    return sha256(data).hexdigest()


def decode_upload(data: bytes, name: str, megapixels: float) -> Picture:
    """Decode a picture of some accepted format; its pixels are counted before any is decoded."""
    if not data:
        raise Refusal(422, f"the picture is empty, 0 bytes: {_WANTED}")
    try:
        with Image.open(BytesIO(data), formats=FORMATS) as image:
            width, height = image.size
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise Refusal(413, f"the picture has too many pixels: wanted at most {megapixels:g} megapixel") from error
    except UnidentifiedImageError as error:
        raise Refusal(415, f"the picture is of no known kind, it begins with {data[:8]!r}: {_WANTED}") from error
    except _BROKEN as error:
        raise Refusal(422, f"the picture cannot be read, it is damaged: {_WANTED}") from error
    if width * height > megapixels * 1e6:
        raise Refusal(
            413, f"the picture has {width} x {height} pixels: wanted at most {megapixels:g} megapixel, make it smaller"
        )
    try:
        picture = open_picture(data, name="the picture")
    except InputError as error:
        raise Refusal(422, str(error)) from error
    return Picture(picture.pixels, picture.width, picture.height, name)
