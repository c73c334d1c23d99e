"""Files that are whole or not there at all, however the program ends."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
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
    flush_folder(path.parent)


def flush_folder(path: Path) -> None:
    """Make new names in a folder survive a power cut."""
    if sys.platform != "win32":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
