"""Files and folders of this computer and of object stores, by path or URL, through ``pyarrow.fs``."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sct.errors import InputError, missing_extra
from sct.storage.atomic import fsync_dir, make_folder, name_file_in_errors

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "file")
"""Schemes of URLs that may name shards and output folders; ``pyarrow`` decides which of them it has."""
PART_SUFFIX = ".part"
"""Suffix of hidden folders in which files are written; those of killed processes are removed when a job is complete."""


def is_url(text: str) -> bool:
    """Whether a text is a URL of an object store or of a file.

    >>> is_url("s3://bucket/shards"), is_url("shards"), is_url("https://example.org/a.png")
    (True, False, False)
    """
    found = _URL.match(text)
    return found is not None and found[1].lower() in SCHEMES


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file in a listing."""

    name: str
    """Path below the listed folder."""
    size: int
    modified: int
    """Time of its last change, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Location:
    """A file or folder; picklable, so that workers on other computers can open it."""

    filesystem: Any
    """A ``pyarrow.fs.FileSystem``."""
    path: str
    """Path in the file system, without a slash at its end."""
    scheme: str = ""
    """Scheme of its URL; empty for this computer."""

    @classmethod
    def parse(cls, text: str) -> "Location":
        """Location of a path or URL.

        >>> Location.parse("/data//shards/").name
        '/data/shards'
        """
        try:
            from pyarrow import ArrowException  # noqa: PLC0415
            from pyarrow.fs import FileSystem, LocalFileSystem  # noqa: PLC0415
        except ImportError as error:
            raise missing_extra("a bulk job", "prepare", error) from error
        if not is_url(text):
            if not text or "\0" in text:
                raise InputError(f"got {text!r}, expected the path or URL of a file or folder")
            return cls(LocalFileSystem(), os.path.abspath(text))  # noqa: PTH100  "a/../b" without following links
        scheme = text.partition(":")[0].lower()
        try:
            filesystem, path = FileSystem.from_uri(text)
        except (ArrowException, OSError, ValueError) as error:
            raise InputError(f"{hide_secrets(text)} cannot be opened ({_one_line(error)}): expected a URL") from error
        return cls(filesystem, path.rstrip("/") or "/", "" if scheme == "file" else scheme)

    @property
    def name(self) -> str:
        """Path or URL for messages, without credentials and options."""
        return f"{self.scheme}://{self.path}" if self.scheme else self.path

    @property
    def is_local(self) -> bool:
        """Whether it is a path of this computer."""
        return not self.scheme

    @property
    def file_name(self) -> str:
        """Last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> "Location":
        """The folder that it is in."""
        return replace(self, path=self.path.rpartition("/")[0] or "/")

    def child(self, name: str) -> "Location":
        """A file or folder below this folder; the caller checks names that strangers wrote."""
        return replace(self, path=f"{self.path.rstrip('/')}/{name}")

    def entry(self) -> FileEntry | None:
        """Size and time of a file; None if there is none."""
        info = self._info()
        return FileEntry(self.file_name, info.size, _modified(info)) if _is_file(info) else None

    def is_folder(self) -> bool:
        """Whether it is an existing folder."""
        return bool(self._info().type.name == "Directory")

    def list_files(self, *, recursive: bool = False) -> list[FileEntry]:
        """Files of a folder, in no order; hidden ones are left out."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415

        prefix = f"{self.path.rstrip('/')}/"
        try:
            infos = self.filesystem.get_file_info(FileSelector(self.path, recursive=recursive))
        except FileNotFoundError:
            raise InputError(f"{self.name} does not exist: expected a folder") from None
        except OSError as error:
            raise InputError(f"{self.name} cannot be listed ({_one_line(error)}): expected a folder") from error
        names = [(info.path.removeprefix(prefix), info) for info in infos if _is_file(info)]
        return [
            FileEntry(name, info.size, _modified(info))
            for name, info in names
            if not any(part.startswith(".") for part in name.split("/"))
        ]

    @contextmanager
    def open(self, expected: str, *, random: bool = False) -> Iterator[Any]:
        """Open a file as a stream of bytes, or for ``random`` access; ``expected`` describes it in errors."""
        info = self._info()
        if not _is_file(info):
            problem = "does not exist" if info.type.name == "NotFound" else "is no regular file"
            raise InputError(f"{self.name} {problem}: expected {expected}")
        opener = self.filesystem.open_input_file if random else self.filesystem.open_input_stream
        with opener(self.path, **({} if random else {"compression": None, "buffer_size": 1 << 20})) as file:
            yield file

    def read_bytes(self, expected: str, *, max_bytes: int) -> bytes:
        """Read a whole file of at most ``max_bytes``."""
        with self.open(expected) as file:
            content = bytes(file.read(max_bytes + 1))
        if len(content) > max_bytes:
            raise InputError(f"{self.name} has more than {max_bytes:,} bytes: expected {expected}")
        return content

    @contextmanager
    def local_copy(self) -> Iterator[Path]:
        """Yield the path of a file on this computer: its own, or that of a temporary copy."""
        if self.is_local:
            yield Path(self.path)
            return
        with self.parent.scratch(self.file_name) as folder:
            path = folder / self.file_name
            with self.open("a file of the job", random=True) as source, path.open("wb") as copy:
                while block := source.read(1 << 22):
                    copy.write(block)
            yield path

    def make_folder(self) -> None:
        """Create a folder, which object stores need not have."""
        if self.is_local:
            make_folder(Path(self.path))
        else:
            info = self._info()
            if _is_file(info):
                raise InputError(f"{self.name} is a file: expected a folder to write to")

    def publish(self, part: Path) -> None:
        """Make a complete file of this computer appear here, at once; on this computer it is moved.

        Several processes may write the same file: the last one remains, and no reader sees a part of it.
        """
        if not self.is_local:
            with part.open("rb") as source, self.filesystem.open_output_stream(self.path) as target:
                while block := source.read(1 << 22):
                    target.write(block)
            return
        target_path = Path(self.path)
        with name_file_in_errors(target_path):
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            part.replace(target_path)
            fsync_dir(target_path.parent)

    def write_bytes(self, content: bytes) -> None:
        """Write a file at once."""
        with self.parent.scratch(self.file_name) as folder:
            (folder / "part").write_bytes(content)
            self.publish(folder / "part")

    @contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """Yield a temporary folder of this computer, where files are written that ``publish`` moves below this folder.

        It is in this folder, if that is local, so that the rest of a killed process is removed with the job's.
        """
        where = {"dir": self.path, "prefix": f".{name}.", "suffix": PART_SUFFIX} if self.is_local else {}
        with tempfile.TemporaryDirectory(**where, ignore_cleanup_errors=True) as folder:
            yield Path(folder)

    def remove_parts(self) -> None:
        """Remove what killed processes have left in this folder, if it is local."""
        for path in Path(self.path).glob(f".*{PART_SUFFIX}") if self.is_local else ():
            shutil.rmtree(path, ignore_errors=True)

    def write_once(self, content: bytes) -> None:
        """Write a file unless it exists. In an object store two writers at the same moment may both write."""
        if self.entry() is not None:
            return
        if not self.is_local:
            self.write_bytes(content)
            return
        with self.parent.scratch(self.file_name) as folder:
            (folder / "part").write_bytes(content)
            with suppress(FileExistsError):
                os.link(folder / "part", self.path)  # unlike a rename, fails if the file exists

    def delete(self) -> None:
        """Delete a file if it exists."""
        if self.entry() is not None:
            self.filesystem.delete_file(self.path)

    def _info(self) -> Any:
        try:
            return self.filesystem.get_file_info(self.path)
        except OSError as error:
            raise InputError(f"{self.name} cannot be read ({_one_line(error)}): expected a file or folder") from error


def hide_secrets(url: str) -> str:
    """URL without user, password and options.

    >>> hide_secrets("s3://key:secret@bucket/shards?region=x")
    's3://bucket/shards'
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    rest = rest.partition("?")[0]
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def _is_file(info: Any) -> bool:
    return bool(info.type.name == "File")


def _modified(info: Any) -> int:
    return int(info.mtime_ns or 0)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
