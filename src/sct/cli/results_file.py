"""Results of images in a file, a JSON line each, written as they are made; the same command resumes a stopped one."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from sct.cli.printing import format_json
from sct.errors import InputError, format_value
from sct.storage.artifacts import ArtifactFormat
from sct.storage.atomic import atomic_write, lock, name_file_in_errors
from sct.storage.reading import Line, parse_json, read_json, read_lines

RESULTS_FORMAT = ArtifactFormat("sct results", "give another --out")
_EXPECTED = "a file of results with one JSON object per line: give another --out"


class ResultsFile:
    """An open file of results; made by ``open_results``."""

    def __init__(self, path: Path, file: BinaryIO, images: Iterable[str]) -> None:
        """``images`` are the names of the images that have a line already."""
        self.path, self._file, self._images = path, file, set(images)

    def remaining(self, files: Iterable[Path]) -> list[Path]:
        """Image files without a line, each once."""
        return [file for file in dict.fromkeys(files) if str(file) not in self._images]

    def write(self, record: Mapping[str, Any]) -> None:
        """Append the line of an image."""
        line = memoryview(f"{format_json(record)}\n".encode())
        with name_file_in_errors(self.path):
            while line:
                line = line[self._file.write(line) :]


@contextmanager
def open_results(path: Path, settings: Mapping[str, Any]) -> Iterator[ResultsFile]:
    """Open a new file, or one that was begun with the same settings, and lock it.

    The settings are in ``PATH.settings.json``. A last line that was cut off by a kill or a full disk is removed.
    """
    if not path.name:
        raise InputError(f"--out {path} is a folder: expected {_EXPECTED}")
    record = path.with_name(f"{path.name}.settings.json")
    if not path.parent.is_dir():
        raise InputError(f"--out {path}: folder {path.parent} does not exist: create it first")
    if path.exists() and not path.is_file():
        raise InputError(f"--out {path} is not a regular file: expected {_EXPECTED}")
    settings = json.loads(json.dumps(settings))
    with path.open("ab", buffering=0) as file:
        lock(file, path)
        if os.fstat(file.fileno()).st_size:
            _check_settings(path, record, settings)
        _remove_torn_line(path)
        images = [_image_name(line, path) for line in read_lines(path, _EXPECTED)]
        if not images:
            with atomic_write(record) as content:
                content.write(json.dumps({**RESULTS_FORMAT.header(), "settings": settings}, indent=1).encode())
        yield ResultsFile(path, file, images)
        os.fsync(file.fileno())


def _check_settings(path: Path, record: Path, settings: Mapping[str, Any]) -> None:
    if not record.is_file():
        raise InputError(f"--out {path} exists, but not {record.name}, so it is no file of results: give another --out")
    content = read_json(record, "the settings of a file of results")
    if not isinstance(content, dict) or not isinstance(content.get("settings"), dict):
        raise RESULTS_FORMAT.damaged(record, "it has no settings")
    RESULTS_FORMAT.check_header(content, record)
    begun = content["settings"]
    for name in [*settings, *begun]:
        if settings.get(name) != begun.get(name):
            raise InputError(
                f"--out {path} was begun with {name} {format_value(begun.get(name))}, got "
                f"{format_value(settings.get(name))}: use the same options, or another --out"
            )


def _remove_torn_line(path: Path) -> None:
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        kept, step = end, 1 << 16
        while kept:
            start = max(0, kept - step)
            file.seek(start)
            newline = file.read(kept - start).rfind(b"\n")
            if newline >= 0:
                kept = start + newline + 1
                break
            kept = start
        if kept < end:
            file.truncate(kept)


def _image_name(line: Line, path: Path) -> str:
    content = parse_json(line.text, f"{path}:{line.number}")
    if not isinstance(content, dict) or not isinstance(content.get("image"), str):
        raise InputError(f"{path}:{line.number} names no image: expected {_EXPECTED}")
    return str(content["image"])
