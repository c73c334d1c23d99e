"""Atomic writes and an advisory lock."""

import errno
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO

from sct.errors import InputError

DISK_FULL = frozenset((errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC))
"""Errors of a write that do not name their file."""


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Write a temporary file beside ``path`` and rename it once it is on disk.

    Only one process at a time may write a file; the rest of a killed one is overwritten.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is a folder, a pipe or a device: expected a file to write")
    part = path.with_name(f".{path.name}.part")
    with name_file_in_errors(path):
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


@contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Add the file to a system error of writing it, which names none."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Create a folder and lock it for one process; after an error, a new folder that is still empty is removed.

    The folder itself is locked, so that no lock file is left behind.
    """
    made = make_folder(folder)
    descriptor = os.open(folder, os.O_RDONLY) if sys.platform != "win32" else os.open(os.devnull, os.O_RDONLY)
    try:
        lock(descriptor, folder)
        try:
            yield
        except BaseException:
            remove_empty_folders(made)
            raise
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> list[Path]:
    """Create a folder and those above it; returns the new ones, innermost first."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: expected a folder to write to")
    folder = folder.absolute()
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return made


def remove_empty_folders(made: Iterable[Path]) -> None:
    """Remove the folders of ``make_folder`` that are empty, while what was made in them is locked."""
    for path in made:
        with suppress(OSError):  # not empty, or removed already
            path.rmdir()


def fsync_dir(path: Path) -> None:
    """Flush the entries of a folder to disk."""
    if sys.platform != "win32":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def lock(file: IO[bytes] | int, folder: Path) -> None:
    """Lock ``folder`` by an open file or its descriptor until it is closed, also by the end of the process."""
    if sys.platform != "win32":
        import fcntl  # noqa: PLC0415

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{folder} is being written by another process: wait for it, or stop it") from error
