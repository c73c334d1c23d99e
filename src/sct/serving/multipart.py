"""Images as strangers send them, decoded with care.

Bodies of requests, read into memory and nowhere else, and no further than a limit.

Frameworks put large uploads into files on disk. What people show this server is never written anywhere, so forms are
taken apart here: a few lines, since all parts are in memory anyway.
"""

import re
import struct
import zlib
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO

from PIL import Image, UnidentifiedImageError
from starlette.requests import ClientDisconnect, Request

from sct.errors import InputError
from sct.regions.images import LoadedImage, load_image
from sct.serving.middleware import APIError

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "AVIF", "BMP")
"""What browsers show, too: fewer decoders that a stranger can feed."""
# What Pillow's readers are known to raise on broken headers.
_BROKEN = (
    ArithmeticError, EOFError, LookupError, MemoryError, OSError, RuntimeError, SyntaxError, TypeError, ValueError,
    struct.error, zlib.error,
)  # fmt: skip
_EXPECTED_IMAGE = "expected a JPEG, PNG, WebP, GIF, AVIF or BMP image"


def image_id(data: bytes) -> str:
    """By what an image is named from then on."""
    return sha256(data).hexdigest()


def decode_upload(data: bytes, name: str, megapixels: float) -> LoadedImage:
    """Decode an image of some accepted format; its pixels are counted before any is decoded."""
    if not data:
        raise APIError(422, f"the image is empty, 0 bytes: {_EXPECTED_IMAGE}")
    try:
        with Image.open(BytesIO(data), formats=FORMATS) as image:
            width, height = image.size
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise APIError(413, f"the image has too many pixels: expected at most {megapixels:g} megapixel") from error
    except UnidentifiedImageError as error:
        raise APIError(415, f"the image is of no known kind, it begins with {data[:8]!r}: {_EXPECTED_IMAGE}") from error
    except _BROKEN as error:
        raise APIError(422, f"the image cannot be read, it is damaged: {_EXPECTED_IMAGE}") from error
    if width * height > megapixels * 1e6:
        raise APIError(
            413, f"the image has {width} x {height} pixels: expected at most {megapixels:g} megapixel, make it smaller"
        )
    try:
        decoded = load_image(data, name="the image")
    except InputError as error:
        raise APIError(422, str(error)) from error
    return LoadedImage(decoded.pixels, decoded.width, decoded.height, name)


_MOST_PARTS = 8
_MOST_HEADER_BYTES = 8 * 1024
_BOUNDARY = re.compile(r"""boundary=(?:"([^"]{1,70})"|([^\s;,"]{1,70}))\s*(?:;|$)""", re.IGNORECASE)
_DISPOSITION = re.compile(rb"^content-disposition:[ \t]*form-data[ \t]*;(.*)$", re.IGNORECASE | re.MULTILINE)
_NAME = re.compile(rb"""(?:^|;)[ \t]*name=(?:"([^"]*)"|([^\s;"]+))""", re.IGNORECASE)
_EXPECTED = 'expected the parts "image" and "request"'


@dataclass(frozen=True, slots=True)
class Body:
    """A body with its kind."""

    kind: str
    """Media type in small letters, without parameters."""
    content_type: str
    """As it came."""
    data: bytes


async def read_body(request: Request, most: int) -> Body:
    """Read a body, but not a byte more than ``most``."""
    content_type = request.headers.get("content-type", "")
    kind = content_type.partition(";")[0].strip().lower()
    check_declared_size(declared_size(request), most)
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            check_declared_size(size, most)
            chunks.append(chunk)
    except ClientDisconnect as error:
        raise APIError(400, "the body ended early") from error
    return Body(kind, content_type, b"".join(chunks))


def declared_size(request: Request) -> int | None:
    """How many bytes a request says that it has, if it says so."""
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isascii() and declared.isdigit() else None


def check_declared_size(size: int | None, most: int) -> None:
    """Refuse what is too large."""
    if size is not None and size > most:
        raise APIError(413, f"the body has {size} bytes or more: expected at most {most}")


def form_parts(body: Body) -> dict[str, bytes]:
    r"""The parts of a form by their names (RFC 7578); names of files and types of parts are not looked at.

    >>> text = b'--x\r\nContent-Disposition: form-data; name="request"\r\n\r\n{}\r\n--x--\r\n'
    >>> form_parts(Body("multipart/form-data", "multipart/form-data; boundary=x", text))
    {'request': b'{}'}
    """
    found = _BOUNDARY.search(body.content_type)
    if found is None:
        raise APIError(
            400, "the form does not say how its parts are told apart: expected a boundary in its content type"
        )
    boundary = (found[1] or found[2]).encode("latin-1", "replace")
    # A boundary begins a line; the first one may begin the body.
    pieces = (b"\r\n" + body.data).split(b"\r\n--" + boundary, _MOST_PARTS + 2)
    if len(pieces) < 2:
        raise APIError(400, f"the form has no part: {_EXPECTED}")
    if len(pieces) > _MOST_PARTS + 2:
        raise APIError(400, f"the form has more than {_MOST_PARTS} parts: {_EXPECTED}")
    if not pieces[-1].startswith(b"--"):
        raise APIError(400, "the form does not end with its boundary, it is incomplete: send it again")
    parts: dict[str, bytes] = {}
    for piece in pieces[1:-1]:
        name, content = _part(piece)
        if name in parts:
            raise APIError(400, f"the form has two parts {name!r}: {_EXPECTED}")
        parts[name] = content
    return parts


def _part(piece: bytes) -> tuple[str, bytes]:
    headers, ends, content = piece.partition(b"\r\n\r\n")
    if not ends or not headers.lstrip(b" \t").startswith(b"\r\n") or len(headers) > _MOST_HEADER_BYTES:
        raise APIError(400, f"a part of the form has no end of its headers: {_EXPECTED}")
    disposition = _DISPOSITION.search(headers.replace(b"\r\n", b"\n"))
    name = _NAME.search(disposition[1]) if disposition else None
    if name is None:
        raise APIError(400, f"a part of the form has no name: {_EXPECTED}")
    return (name[1] or name[2] or b"").decode("latin-1")[:100], content
