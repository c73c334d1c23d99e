"""Request bodies: reading, multipart parsing and image decoding, all in memory.

Frameworks spool large uploads to files; uploads to this server are never written to disk, hence the parser here.
"""

import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO

from PIL import Image, UnidentifiedImageError
from starlette.requests import ClientDisconnect, Request

from sct.errors import InputError
from sct.regions.images import LoadedImage, load_image
from sct.serving.middleware import APIError

IMAGE_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "AVIF", "BMP")
"""Formats that browsers display; fewer decoders are exposed to untrusted input."""
# Exceptions that Pillow is known to raise on malformed headers.
_PILLOW_ERRORS = (
    ArithmeticError, EOFError, LookupError, MemoryError, OSError, RuntimeError, SyntaxError, TypeError, ValueError,
    struct.error, zlib.error,
)  # fmt: skip
_EXPECTED_IMAGE = "expected a JPEG, PNG, WebP, GIF, AVIF or BMP image"

_MAX_PARTS = 8
_MAX_HEADER_BYTES = 8 * 1024
_BOUNDARY = re.compile(r"""boundary=(?:"([^"]{1,70})"|([^\s;,"]{1,70}))\s*(?:;|$)""", re.IGNORECASE)
_DISPOSITION = re.compile(rb"^content-disposition:[ \t]*form-data[ \t]*;(.*)$", re.IGNORECASE | re.MULTILINE)
_NAME = re.compile(rb"""(?:^|;)[ \t]*name=(?:"([^"]*)"|([^\s;"]+))""", re.IGNORECASE)
_EXPECTED_PARTS = 'expected the parts "image" and "request"'


@dataclass(frozen=True, slots=True)
class Body:
    """A request body with its content type."""

    media_type: str
    """Lower case, without parameters."""
    content_type: str
    """The header as received."""
    data: bytes


async def read_body(request: Request, max_bytes: int, count: Callable[[int], None] = lambda _: None) -> Body:
    """Read a body of at most ``max_bytes``; ``count`` is called with the size of each chunk."""
    content_type = request.headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    length = request.headers.get("content-length", "")
    _check_size(int(length) if length.isascii() and length.isdigit() else 0, max_bytes)
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            _check_size(size, max_bytes)
            count(len(chunk))
            chunks.append(chunk)
    except ClientDisconnect as error:
        raise APIError(400, "the body is incomplete") from error
    return Body(media_type, content_type, b"".join(chunks))


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise APIError(413, f"got a body of {size} bytes or more, expected at most {max_bytes}")


def parse_form(body: Body) -> dict[str, bytes]:
    r"""Return the parts of a multipart form by name (RFC 7578); file names and part types are ignored.

    >>> text = b'--x\r\nContent-Disposition: form-data; name="request"\r\n\r\n{}\r\n--x--\r\n'
    >>> parse_form(Body("multipart/form-data", "multipart/form-data; boundary=x", text))
    {'request': b'{}'}
    """
    match = _BOUNDARY.search(body.content_type)
    if match is None:
        raise APIError(400, "the form has no boundary, expected one in its content type")
    boundary = (match[1] or match[2]).encode("latin-1", "replace")
    # A boundary is at the start of a line; the first one may be at the start of the body.
    pieces = (b"\r\n" + body.data).split(b"\r\n--" + boundary, _MAX_PARTS + 2)
    if len(pieces) < 2:
        raise APIError(400, f"the form has no parts, {_EXPECTED_PARTS}")
    if len(pieces) > _MAX_PARTS + 2:
        raise APIError(400, f"the form has more than {_MAX_PARTS} parts, {_EXPECTED_PARTS}")
    if not pieces[-1].startswith(b"--"):
        raise APIError(400, "the form is incomplete, it does not end with its boundary: send it again")
    parts: dict[str, bytes] = {}
    for piece in pieces[1:-1]:
        name, content = _parse_part(piece)
        if name in parts:
            raise APIError(400, f"the form has two parts {name!r}, {_EXPECTED_PARTS}")
        parts[name] = content
    return parts


def _parse_part(piece: bytes) -> tuple[str, bytes]:
    headers, separator, content = piece.partition(b"\r\n\r\n")
    if not separator or not headers.lstrip(b" \t").startswith(b"\r\n") or len(headers) > _MAX_HEADER_BYTES:
        raise APIError(400, f"a part of the form has malformed headers, {_EXPECTED_PARTS}")
    disposition = _DISPOSITION.search(headers.replace(b"\r\n", b"\n"))
    name = _NAME.search(disposition[1]) if disposition else None
    if name is None:
        raise APIError(400, f"a part of the form has no name, {_EXPECTED_PARTS}")
    return (name[1] or name[2] or b"").decode("latin-1")[:100], content


def image_id(data: bytes) -> str:
    """Return the id of an image: the SHA-256 of its file."""
    return sha256(data).hexdigest()


def decode_image(data: bytes, name: str, max_megapixels: float) -> LoadedImage:
    """Decode an uploaded image; its size is checked before its pixels are decoded."""
    if not data:
        raise APIError(422, f"got an empty image, 0 bytes, {_EXPECTED_IMAGE}")
    try:
        with Image.open(BytesIO(data), formats=IMAGE_FORMATS) as image:
            width, height = image.size
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise APIError(413, f"the image has too many pixels, expected at most {max_megapixels:g} megapixels") from error
    except UnidentifiedImageError as error:
        raise APIError(415, f"unknown image format, it starts with {data[:8]!r}, {_EXPECTED_IMAGE}") from error
    except _PILLOW_ERRORS as error:
        raise APIError(422, f"the image is damaged, {_EXPECTED_IMAGE}") from error
    if width * height > max_megapixels * 1e6:
        raise APIError(
            413, f"got an image of {width} x {height} pixels, expected at most {max_megapixels:g} megapixels: resize it"
        )
    try:
        loaded = load_image(data, name="the image")
    except InputError as error:
        raise APIError(422, str(error)) from error
    return LoadedImage(loaded.pixels, loaded.width, loaded.height, name)
