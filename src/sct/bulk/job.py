"""The folder of a job: a job file that is written once, and a report per finished shard, written last.

- ``job.json``: settings and shards
- ``NAME.parquet``: rows of the shard NAME, or ``NAME.jsonl``
- ``NAME.report.json``: the shard is done; numbers of images and errors, checksums of its files
- ``NAME.failure.json``: the shard was given up in the last run
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sct._version import __version__
from sct.bulk.location import FileEntry, Location
from sct.bulk.shards import Shard
from sct.errors import InputError, format_value
from sct.storage.artifacts import ArtifactFormat
from sct.storage.reading import parse_json

JOB, REPORT, FAILURE = "job.json", ".report.json", ".failure.json"
JOB_FORMAT = ArtifactFormat("sct bulk job", "give another --out")
REPORT_FORMAT = ArtifactFormat("sct bulk report", "delete it, and run the job again")
_MAX_JOB_BYTES = 1 << 30
_READ_THREADS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A finished shard."""

    shard: str
    job: str
    """Fingerprint of the job."""
    num_images: int
    num_errors: int
    errors: tuple[Mapping[str, str], ...] = ()
    """Key and reason of each image that failed."""
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Size and SHA-256 of each output file."""
    seconds: float = 0.0
    """Time that the worker took for the shard; the only value that differs between runs."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What the task adds."""

    def encode(self) -> bytes:
        """Content of the file."""
        content = {**REPORT_FORMAT.header(), **asdict(self)}
        return json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8")

    @classmethod
    def decode(cls, content: bytes, path: str) -> "Report":
        """Read the content of a file."""
        found = parse_json(content, path)
        if not isinstance(found, dict):
            raise REPORT_FORMAT.damaged(Path(path), "it is no object")
        REPORT_FORMAT.check_header(found, Path(path))
        kinds = {"shard": str, "job": str, "num_images": int, "num_errors": int, "errors": list, "files": dict}
        for name, kind in {**kinds, "seconds": float, "details": dict}.items():
            if not isinstance(found.get(name), kind):
                raise REPORT_FORMAT.damaged(Path(path), f"{name} is {format_value(found.get(name))}")
        for error in found["errors"]:
            if not isinstance(error, dict) or not all(isinstance(error.get(name), str) for name in ("key", "reason")):
                raise REPORT_FORMAT.damaged(Path(path), f"an error is {format_value(error)}")
        names = ("shard", "job", "num_images", "num_errors", "files", "seconds", "details")
        return cls(**{name: found[name] for name in names}, errors=tuple(found["errors"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job and its folder; picklable."""

    folder: Location
    fingerprint: str
    """SHA-256 of settings and shards."""
    opened: FileEntry | None = None
    """The job file as it was when the job was opened."""

    def report_file(self, shard: str) -> Location:
        """Where the report of a shard is."""
        return self.folder.child(f"{shard}{REPORT}")

    def failure_file(self, shard: str) -> Location:
        """Where the failure of a shard is."""
        return self.folder.child(f"{shard}{FAILURE}")

    def read_report(self, shard: str) -> Report | None:
        """Report of a shard, if it is done; one of another job counts as none."""
        file = self.report_file(shard)
        if file.entry() is None:
            return None
        report = Report.decode(file.read_bytes("a report", max_bytes=_MAX_JOB_BYTES), file.name)
        return report if (report.job, report.shard) == (self.fingerprint, shard) else None

    def read_reports(self, shards: Iterable[str]) -> dict[str, Report]:
        """Reports of all shards that are done, by name; read in threads, as object stores are slow."""
        existing = {entry.name for entry in self.folder.list_files()}
        names = [name for name in shards if f"{name}{REPORT}" in existing]
        with ThreadPoolExecutor(_READ_THREADS) as pool:
            reports = pool.map(self.read_report, names)
            return {name: report for name, report in zip(names, reports, strict=True) if report is not None}

    def is_complete(self, shards: Iterable[str]) -> bool:
        """Whether all shards have a report, by the listing of the folder alone."""
        existing = {entry.name for entry in self.folder.list_files()}
        return all(f"{name}{REPORT}" in existing for name in shards)

    def check(self) -> None:
        """Raise if another job has taken the folder, which an object store cannot prevent."""
        if self.opened is not None and self.folder.child(JOB).entry() == self.opened:
            return
        if JobFile.read(self.folder).fingerprint != self.fingerprint:
            raise InputError(f"{self.folder.name} belongs to another job by now: give another --out")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """Content of ``job.json``."""

    settings: Mapping[str, Any]
    shards: tuple[Mapping[str, Any], ...]
    """Name, kind, size and version of each."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(self._encode_content()).hexdigest()

    def _encode_content(self) -> bytes:
        content = {"settings": self.settings, "shards": self.shards}
        return json.dumps(content, indent=1, sort_keys=True).encode("ascii")

    @classmethod
    def create(cls, command: str, settings: Mapping[str, Any], shards: Sequence[Shard]) -> "JobFile":
        """Describe a job."""
        known = {"command": command, "sct": __version__, **settings}
        return cls(settings=json.loads(json.dumps(known)), shards=tuple(shard.record() for shard in shards))

    @classmethod
    def read(cls, folder: Location) -> "JobFile":
        """Read the job file of a folder."""
        file = folder.child(JOB)
        path = Path(file.name)
        if file.entry() is None:
            raise InputError(f"{folder.name} has no {JOB}: expected the folder of a bulk job")
        content = parse_json(file.read_bytes("a job file", max_bytes=_MAX_JOB_BYTES), file.name)
        if not isinstance(content, dict):
            raise JOB_FORMAT.damaged(path, "it is no object")
        JOB_FORMAT.check_header(content, path)
        settings, shards = content.get("settings"), content.get("shards")
        if not isinstance(settings, dict) or not isinstance(shards, list):
            raise JOB_FORMAT.damaged(path, "it has no settings or no shards")
        if not all(isinstance(shard, dict) and isinstance(shard.get("name"), str) for shard in shards):
            raise JOB_FORMAT.damaged(path, "a shard has no name")
        return cls(settings=settings, shards=tuple(shards))

    def open(self, folder: Location) -> Job:
        """Begin a job in a folder, or join one with the same settings and shards."""
        folder.make_folder()
        content = json.loads(self._encode_content())
        text = json.dumps({**JOB_FORMAT.header(), **content}, indent=1, sort_keys=True)
        if folder.child(JOB).entry() is None:
            self._check_new(folder)
        folder.child(JOB).write_once(text.encode("ascii"))
        opened = folder.child(JOB).entry()
        self._check_same(JobFile.read(folder), folder)
        return Job(folder=folder, fingerprint=self.fingerprint, opened=opened)

    def _check_new(self, folder: Location) -> None:
        """Refuse a folder with other files: outputs may overwrite them."""
        found = [] if not folder.is_folder() else folder.list_files()
        if found:
            raise InputError(f"{folder.name} has {found[0].name}, but no {JOB}: expected a new or empty folder")

    def _check_same(self, begun: "JobFile", folder: Location) -> None:
        for name in [*self.settings, *begun.settings]:
            if self.settings.get(name) != begun.settings.get(name):
                raise InputError(
                    f"{folder.name} was begun with {name} {format_value(begun.settings.get(name))}, got "
                    f"{format_value(self.settings.get(name))}: use the same options, or another --out"
                )
        if self.shards == begun.shards:
            return
        ours, theirs = ({str(shard["name"]): shard for shard in shards} for shards in (self.shards, begun.shards))
        if len(ours) != len(theirs):
            reason = f"{len(theirs):,} shards, got {len(ours):,}"
        else:
            name = next((name for name in ours if ours[name] != theirs.get(name)), "?")
            reason = f"another shard {name}" if name in theirs else f"no shard {name}"
        raise InputError(f"{folder.name} was begun with {reason}: use the same shards, or another --out")


def has_changed(shard: Shard) -> bool:
    """Whether the file of a shard is another one than when it was listed; a folder's images are read by name."""
    if shard.kind == "folder":
        return False
    entry: FileEntry | None = shard.location.entry()
    return entry is None or (entry.size, str(entry.modified)) != (shard.size, shard.version)
