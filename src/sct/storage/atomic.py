"""Files that are whole or not there at all, however the program ends, and written by one process at a time."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from sct.errors import InputError


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Write a file beside its place and move it there only once it is on disk.

    Only one process at a time may write a file; what a kill leaves beside it, the next one writes over.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    part.replace(path)
    fsync_dir(path.parent)


def fsync_dir(path: Path) -> None:
    """Make new names in a folder survive a power cut."""
    if sys.platform != "win32":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def lock(file: IO[bytes], what: Path) -> None:
    """Keep a second writer out of ``what`` for as long as the file is open; the system lets go when a process dies."""
    if sys.platform != "win32":
        import fcntl  # noqa: PLC0415

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{what} is being built by another process: wait for it, or stop it") from error
