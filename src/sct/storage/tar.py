"""Index uncompressed tar files, so that a file can be read without unpacking the rest, or stream their files in order.

A parser of its own: ``tarfile`` takes several times as long for a hundred thousand members, and what it raises on
damaged files differs between versions of Python. POSIX (ustar, pax), GNU and old tar files are read.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from sct.errors import InputError
from sct.limits import MAX_IMAGE_BYTES, MAX_NAME_CHARACTERS
from sct.storage.reading import open_file

EXPECTED = "an uncompressed tar file"
_BLOCK = 512
_REGULAR, _LONG_NAME, _PAX = (b"0", b"\0", b"7"), b"L", b"x"
_MAX_EXTENSION_BYTES = 1 << 16
"""Size of an extended header, which holds a long name."""
_SKIP_BYTES = 1 << 20
_COMPRESSIONS = {b"\x1f\x8b": "gunzip", b"BZh": "bunzip2", b"\xfd7zXZ": "unxz", b"\x28\xb5\x2f\xfd": "unzstd"}
_PAX_FIELD = re.compile(rb"(\d{1,9}) (path|size)=")


class TarMember(NamedTuple):
    """A regular file in a tar file."""

    name: str
    offset: int
    """Of its first byte."""
    size: int


def index_tar(path: Path) -> Iterator[TarMember]:
    """Iterate over the regular files of a tar file; reads headers only.

    Links, folders and devices are left out. A damaged file, also one that is cut off within a
    member, is an ``InputError``; a missing end marker is not.
    """
    with open_file(path, EXPECTED) as file:
        descriptor = file.fileno()
        end = os.fstat(descriptor).st_size
        position, extension = 0, _Extension()
        while position < end:
            header = os.pread(descriptor, _BLOCK, position)
            if header == bytes(_BLOCK) and position:
                return
            size, kind = _parse_header(header, path, position), header[156:157]
            start = position + _BLOCK
            size = size if extension.size is None else extension.size
            if start + size > end:
                raise _cut_off(path, start, size, end)
            if kind in (_LONG_NAME, _PAX):
                _check_extension_size(size, path, position)
                content = os.pread(descriptor, size, start)
                extension = extension.read_pax(content) if kind == _PAX else extension._replace(name=content)
            else:
                name = _decode_name(extension.name or _short_name(header), path, position)
                if kind in _REGULAR and not name.endswith("/"):
                    yield TarMember(name, start, size)
                extension = _Extension()
            position = start + -(-size // _BLOCK) * _BLOCK
        if not position:
            raise InputError(f"{path} is empty: expected {EXPECTED}")


def read_member(path: Path, member: TarMember) -> bytes:
    """Read one file of a tar file; safe in threads."""
    with open_file(path, EXPECTED) as file:
        content = os.pread(file.fileno(), member.size, member.offset)
    if len(content) != member.size:
        raise InputError(f"{path} has changed, it no longer holds {member.name}: run the command again")
    return content


@runtime_checkable
class ByteStream(Protocol):
    """What a tar file is streamed from."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes: fewer than ``size`` only at the end."""
        ...


class TarContent(NamedTuple):
    """A regular file in a tar stream."""

    name: str
    content: bytes | None
    """None if it has more than ``MAX_IMAGE_BYTES``."""


def stream_tar(stream: ByteStream, path: object) -> Iterator[TarContent]:
    """Read the regular files of a tar file from its beginning to its end, one in memory at a time.

    What is left out and what is an error is as for ``index_tar``; ``path`` names the file in errors.
    """
    position, extension = 0, _Extension()
    while header := stream.read(_BLOCK):
        if header == bytes(_BLOCK) and position:
            return
        size, kind = _parse_header(header, path, position), header[156:157]
        size = size if extension.size is None else extension.size
        start, padding = position + _BLOCK, -size % _BLOCK
        if kind in (_LONG_NAME, _PAX):
            _check_extension_size(size, path, position)
            content = _read_exactly(stream, size, path, start)
            extension = extension.read_pax(content) if kind == _PAX else extension._replace(name=content)
        else:
            name = _decode_name(extension.name or _short_name(header), path, position)
            extension = _Extension()
            if kind not in _REGULAR or name.endswith("/"):
                _skip(stream, size, path, start)
            elif size > MAX_IMAGE_BYTES:
                _skip(stream, size, path, start)
                yield TarContent(name, None)
            else:
                yield TarContent(name, _read_exactly(stream, size, path, start))
        stream.read(padding)  # may be missing after the last file
        position = start + size + padding
    if not position:
        raise InputError(f"{path} is empty: expected {EXPECTED}")


def _read_exactly(stream: ByteStream, size: int, path: object, start: int) -> bytes:
    content = stream.read(size)
    if len(content) != size:
        raise _cut_off(path, start, size, start + len(content))
    return content


def _skip(stream: ByteStream, size: int, path: object, start: int) -> None:
    left = size
    while left:
        skipped = len(stream.read(min(left, _SKIP_BYTES)))
        if not skipped:
            raise _cut_off(path, start, size, start + size - left)
        left -= skipped


def _cut_off(path: object, start: int, size: int, end: int) -> InputError:
    return InputError(
        f"{path} is cut off: byte {start + size:,} belongs to a file that begins at {start:,}, but it has "
        f"{end:,} bytes: copy it again"
    )


def _check_extension_size(size: int, path: object, position: int) -> None:
    if size > _MAX_EXTENSION_BYTES:
        raise InputError(f"{path} has an extended header of {size:,} bytes at {position:,}: expected {EXPECTED}")


class _Extension(NamedTuple):
    """What extended headers say about the member that follows."""

    name: bytes = b""
    size: int | None = None

    def read_pax(self, content: bytes) -> "_Extension":
        """Update from lines "LENGTH KEY=VALUE"; other keys, such as times, are ignored."""
        extension, position = self, 0
        while position < len(content):
            length = content[position:].split(b" ", 1)[0]
            if not (length.isdigit() and len(length) < 7 and int(length) > 0):
                break
            record = content[position : position + int(length)]
            if field := _PAX_FIELD.match(record):
                value = record[field.end() :].removesuffix(b"\n")
                if field[2] == b"path":
                    extension = extension._replace(name=value)
                elif value.isdigit() and len(value) < 19:
                    extension = extension._replace(size=int(value))
            position += int(length)
        return extension


def _parse_header(header: bytes, path: object, position: int) -> int:
    """Check a header; returns the size of the file that follows."""
    if not position:
        for magic, command in _COMPRESSIONS.items():
            if header.startswith(magic):
                raise InputError(f"{path} is compressed: expected {EXPECTED}, unpack it with {command}")
    if len(header) == _BLOCK:
        expected = sum(header) - sum(header[148:156]) + 8 * ord(" ")
        size, checksum = _parse_number(header[124:136]), _parse_number(header[148:156])
        if checksum == expected and size is not None:
            return size
    raise InputError(f"{path} has no tar header at byte {position:,}: expected {EXPECTED}")


def _parse_number(field: bytes) -> int | None:
    """Parse an octal number, or a binary one as GNU tar writes for files of 8 GiB and more; None if it is neither."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.split(b"\0", 1)[0].strip()
    try:
        return int(digits, 8) if digits.isdigit() else None
    except ValueError:
        return None


def _short_name(header: bytes) -> bytes:
    name = header[:100].split(b"\0", 1)[0]
    prefix = header[345:500].split(b"\0", 1)[0] if header[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _decode_name(name: bytes, path: object, position: int) -> str:
    text = os.fsdecode(name.split(b"\0", 1)[0])
    if len(text) > MAX_NAME_CHARACTERS:
        raise InputError(
            f"{path} has a name of {len(text):,} characters at byte {position:,}: expected at most "
            f"{MAX_NAME_CHARACTERS:,}"
        )
    return text.removeprefix("./")
