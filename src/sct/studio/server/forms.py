"""Bodies of requests, read into memory and nowhere else, and no further than a limit.

Frameworks put large uploads into files on disk. What people show this server is never written anywhere, so forms are
taken apart here: a few lines, since all parts are in memory anyway.
"""

import re
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request

from sct.studio.server.refusals import Refusal

_MOST_PARTS = 8
_MOST_HEADER_BYTES = 8 * 1024
_BOUNDARY = re.compile(r"""boundary=(?:"([^"]{1,70})"|([^\s;,"]{1,70}))\s*(?:;|$)""", re.IGNORECASE)
_DISPOSITION = re.compile(rb"^content-disposition:[ \t]*form-data[ \t]*;(.*)$", re.IGNORECASE | re.MULTILINE)
_NAME = re.compile(rb"""(?:^|;)[ \t]*name=(?:"([^"]*)"|([^\s;"]+))""", re.IGNORECASE)
_WANTED = 'wanted the parts "picture" and "request"'


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
        raise Refusal(400, "the body ended early") from error
    return Body(kind, content_type, b"".join(chunks))


def declared_size(request: Request) -> int | None:
    """How many bytes a request says that it has, if it says so."""
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isascii() and declared.isdigit() else None


def check_declared_size(size: int | None, most: int) -> None:
    """Refuse what is too large."""
    if size is not None and size > most:
        raise Refusal(413, f"the body has {size} bytes or more: wanted at most {most}")


def form_parts(body: Body) -> dict[str, bytes]:
    r"""The parts of a form by their names (RFC 7578); names of files and types of parts are not looked at.

    >>> text = b'--x\r\nContent-Disposition: form-data; name="request"\r\n\r\n{}\r\n--x--\r\n'
    >>> form_parts(Body("multipart/form-data", "multipart/form-data; boundary=x", text))
    {'request': b'{}'}
    """
    found = _BOUNDARY.search(body.content_type)
    if found is None:
        raise Refusal(400, "the form does not say how its parts are told apart: wanted a boundary in its content type")
    boundary = (found[1] or found[2]).encode("latin-1", "replace")
    # A boundary begins a line; the first one may begin the body.
    pieces = (b"\r\n" + body.data).split(b"\r\n--" + boundary, _MOST_PARTS + 2)
    if len(pieces) < 2:
        raise Refusal(400, f"the form has no part: {_WANTED}")
    if len(pieces) > _MOST_PARTS + 2:
        raise Refusal(400, f"the form has more than {_MOST_PARTS} parts: {_WANTED}")
    if not pieces[-1].startswith(b"--"):
        raise Refusal(400, "the form does not end with its boundary, it is incomplete: send it again")
    parts: dict[str, bytes] = {}
    for piece in pieces[1:-1]:
        name, content = _part(piece)
        if name in parts:
            raise Refusal(400, f"the form has two parts {name!r}: {_WANTED}")
        parts[name] = content
    return parts


def _part(piece: bytes) -> tuple[str, bytes]:
    headers, ends, content = piece.partition(b"\r\n\r\n")
    if not ends or not headers.lstrip(b" \t").startswith(b"\r\n") or len(headers) > _MOST_HEADER_BYTES:
        raise Refusal(400, f"a part of the form has no end of its headers: {_WANTED}")
    disposition = _DISPOSITION.search(headers.replace(b"\r\n", b"\n"))
    name = _NAME.search(disposition[1]) if disposition else None
    if name is None:
        raise Refusal(400, f"a part of the form has no name: {_WANTED}")
    return (name[1] or name[2] or b"").decode("latin-1")[:100], content
