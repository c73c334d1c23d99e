"""Read text files, JSON and TOML that others wrote: regular files of bounded size in UTF-8.

Every problem is an ``InputError`` that names the file.
"""

import json
import os
import stat
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from sct.errors import InputError
from sct.limits import MAX_LINE_BYTES, MAX_TEXT_BYTES, MAX_TOML_BYTES

ObjectHook = Callable[[dict[str, Any]], dict[str, Any]]


class Line(NamedTuple):
    """A line of a text file, without its line break."""

    number: int
    """Counted from 1."""
    text: str


@contextmanager
def open_file(path: Path, expected: str) -> Iterator[BinaryIO]:
    """Open a regular file for reading; ``expected`` describes it in errors, such as "a recipe".

    Pipes and devices are refused: reading them may not end.
    """
    try:
        # Non-blocking: a plain open of a named pipe waits for a writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} does not exist: expected {expected}") from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise InputError(f"{path} cannot be read ({_reason(error)}): expected {expected}") from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise InputError(f"{path} is {kind}: expected {expected}")
    with os.fdopen(descriptor, "rb") as file:
        try:
            yield file
        except OSError as error:
            raise InputError(f"{path} cannot be read ({_reason(error)}): expected {expected}") from error


def read_bytes(path: Path, expected: str, *, max_bytes: int = MAX_TEXT_BYTES) -> bytes:
    """Read a whole regular file of at most ``max_bytes``."""
    with open_file(path, expected) as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise InputError(f"{path} has {size:,} bytes: expected {expected} of at most {max_bytes:,}")
        return file.read(size)  # not max_bytes, which Python would allocate at once


def read_text(path: Path, expected: str, *, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Read a whole UTF-8 file, with or without a byte order mark."""
    return _decode(read_bytes(path, expected, max_bytes=max_bytes), str(path), expected)


def read_lines(path: Path, expected: str) -> Iterator[Line]:
    """Iterate over the lines of a UTF-8 file, in bounded memory."""
    for number, line in enumerate(read_byte_lines(path, expected), start=1):
        text = _decode(line, f"{path}:{number}", expected)
        yield Line(number, text.removesuffix("\n").removesuffix("\r"))


def read_byte_lines(path: Path, expected: str) -> Iterator[bytes]:
    """Iterate over the lines of a file as bytes with their line breaks; the caller decodes them."""
    with open_file(path, expected) as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise InputError(f"{path}:{number} has more than {MAX_LINE_BYTES:,} bytes: expected {expected}")
            yield line


def parse_json(text: str | bytes, where: object, *, object_hook: ObjectHook | None = None) -> Any:
    """Parse JSON; ``where`` names its file and line in errors, ``object_hook`` replaces each object once it is parsed.

    >>> parse_json("[" * 100_000, "deep.json")
    Traceback (most recent call last):
    ...
    sct.errors.InputError: deep.json is nested too deeply: expected JSON
    """
    try:
        decoded = _decode(text, str(where), "JSON") if isinstance(text, bytes) else text
        return json.loads(decoded, object_hook=object_hook)
    except RecursionError:
        raise InputError(f"{where} is nested too deeply: expected JSON") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{where} is not valid JSON ({error})") from error
    except InputError:
        raise
    except ValueError as error:  # Python's limit on the digits of an integer
        raise InputError(f"{where} has a number of too many digits: expected JSON") from error


def read_json(path: Path, expected: str, *, object_hook: ObjectHook | None = None) -> Any:
    """Read a JSON file."""
    return parse_json(read_bytes(path, expected), path, object_hook=object_hook)


def read_toml(path: Path, expected: str) -> dict[str, Any]:
    """Read a TOML file."""
    text = read_text(path, expected, max_bytes=MAX_TOML_BYTES)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError(f"{path} is nested too deeply: expected {expected}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not valid TOML ({error}): expected {expected}") from error
    except ValueError as error:
        raise InputError(f"{path} has a number of too many digits: expected {expected}") from error


def _decode(content: bytes, where: str, expected: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{where} is not UTF-8 ({error.reason} at byte {error.start}): expected {expected}") from error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
