"""Shards of a bulk job: files and folders of images, listed once, each with the name of its outputs."""

import fnmatch
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from sct.bulk.location import FileEntry, Location, hide_secrets, is_url
from sct.errors import InputError, format_value
from sct.regions.images import SUFFIXES, natural_key

ShardKind = Literal["tar", "parquet", "jsonl", "folder"]
KINDS: dict[str, ShardKind] = {".tar": "tar", ".parquet": "parquet", ".jsonl": "jsonl"}
"""Kinds of shards by the suffix of their files."""
EXPECTED = "shards: .tar, .parquet or .jsonl files, folders or globs of them, or --images-per-shard with a folder"
_TAKE = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
_WILDCARDS = re.compile(r"[*\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One input file, or a part of a folder of images; picklable."""

    name: str
    """File name without its suffix: the name of its outputs."""
    kind: ShardKind
    location: Location
    """The file, or the folder."""
    size: int
    """Bytes of the file, or of all images."""
    version: str
    """Time of the file's last change, or a hash of the names, sizes and times of the images."""
    files: tuple[str, ...] = ()
    """Images of a folder, by their path below it."""

    def record(self) -> dict[str, Any]:
        """What the job file says about it."""
        return {"name": self.name, "kind": self.kind, "size": self.size, "version": self.version}


def is_shard_input(text: str) -> bool:
    """Whether a path, URL or glob names shards by its form alone; folders have to be listed.

    >>> [is_shard_input(text) for text in ("a.tar", "s3://bucket/shards", "shards/*.parquet", "a.jpg", "photos")]
    [True, True, True, False, False]
    """
    return is_url(text) or _suffix(text) in KINDS


def list_shards(inputs: Sequence[str], *, images_per_shard: int | None = None) -> tuple[Shard, ...]:
    """List the shards of files, folders, globs and URLs, in natural order of their names.

    With ``images_per_shard`` the inputs are folders of images, with all their subfolders.
    """
    shards: list[Shard] = []
    for text in inputs:
        if images_per_shard is None:
            shards += _list_files(text)
        else:
            shards += _cut_folder(Location.parse(text), images_per_shard, is_only=len(inputs) == 1)
    if not shards:
        raise InputError(f"got no shard, expected {EXPECTED}")
    by_name: dict[str, Shard] = {}
    for shard in shards:
        other = by_name.setdefault(shard.name, shard)
        if other is not shard:
            raise InputError(
                f"shards {other.location.name} and {shard.location.name} have the same name, {shard.name}: rename one, "
                "or run two jobs"
            )
    return tuple(sorted(shards, key=lambda shard: natural_key(shard.name)))


def take_shards(shards: Sequence[Shard], take: str | None) -> tuple[Shard, ...]:
    """Shards of one part of a job array: "3/16" is every 16th, from the third.

    >>> take_shards([], "17/16")
    Traceback (most recent call last):
    ...
    sct.errors.InputError: got --take '17/16', expected K/N with K from 1 to N
    """
    if take is None:
        return tuple(shards)
    found = _TAKE.fullmatch(take)
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count:
        raise InputError(f"got --take {format_value(take)}, expected K/N with K from 1 to N")
    return tuple(shards[number - 1 :: count])


def _list_files(text: str) -> Iterator[Shard]:
    path, query = _split_query(text)
    folder, _, pattern = path.rpartition("/")
    if _WILDCARDS.search(pattern):
        if _WILDCARDS.search(folder):
            raise InputError(f"got {hide_secrets(text)}, expected wildcards in the file name only")
        parent = Location.parse(f"{folder or '.'}{query}" if folder or not path.startswith("/") else f"/{query}")
        found = [entry for entry in parent.list_files() if fnmatch.fnmatchcase(entry.name, pattern)]
        yield from _from_entries(parent, found, hide_secrets(text))
        return
    location = Location.parse(text)
    entry = location.entry()
    if entry is not None:
        yield _from_entry(location, entry)
    elif location.is_folder():
        yield from _from_entries(location, location.list_files(), location.name)
    else:
        raise InputError(f"{location.name} does not exist: expected {EXPECTED}")


def _from_entries(folder: Location, entries: Iterable[FileEntry], name: str) -> list[Shard]:
    shards = [_from_entry(folder.child(entry.name), entry) for entry in entries if _suffix(entry.name) in KINDS]
    if not shards:
        raise InputError(f"{name} has no shard: expected {EXPECTED}")
    return shards


def _from_entry(location: Location, entry: FileEntry) -> Shard:
    suffix = _suffix(location.file_name)
    if suffix not in KINDS:
        raise InputError(f"{location.name} is no shard: expected {EXPECTED}")
    return Shard(
        name=location.file_name[: -len(suffix)],
        kind=KINDS[suffix],
        location=location,
        size=entry.size,
        version=str(entry.modified),
    )


def _cut_folder(folder: Location, images_per_shard: int, *, is_only: bool) -> Iterator[Shard]:
    if not folder.is_folder():
        raise InputError(f"{folder.name} is no folder: expected a folder of images with --images-per-shard")
    entries = [entry for entry in folder.list_files(recursive=True) if _suffix(entry.name) in SUFFIXES]
    if not entries:
        raise InputError(f"folder {folder.name} has no image: expected files that end in {', '.join(sorted(SUFFIXES))}")
    entries.sort(key=lambda entry: natural_key(entry.name))
    prefix = "images" if is_only else f"{folder.file_name}-images"
    for number, start in enumerate(range(0, len(entries), images_per_shard)):
        part = entries[start : start + images_per_shard]
        lines = "".join(f"{entry.name}\n{entry.size} {entry.modified}\n" for entry in part)
        yield Shard(
            name=f"{prefix}-{number:06}",
            kind="folder",
            location=folder,
            size=sum(entry.size for entry in part),
            version=hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest(),
            files=tuple(entry.name for entry in part),
        )


def _split_query(text: str) -> tuple[str, str]:
    """Path and options of a URL; a path of this computer may contain a question mark."""
    path, mark, query = text.partition("?") if is_url(text) else (text, "", "")
    return path, mark + query


def _suffix(name: str) -> str:
    return PurePosixPath(name.rpartition("/")[2]).suffix.lower()
