"""Progress of a job from its folder alone, whoever runs it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sct.bulk.job import FAILURE, REPORT, Job, JobFile
from sct.bulk.location import Location
from sct.errors import escape_controls
from sct.storage.reading import parse_json

_RECENT = 200
"""Finished shards from which the rate is estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Progress of a job."""

    command: str
    num_shards: int
    num_done: int
    failures: Mapping[str, str]
    """Reason for each shard that was given up and is not done."""
    num_images: int
    num_errors: int
    worker_seconds: float
    """Time that workers took for the finished shards."""
    images_per_second: float | None
    """Of all workers together, over the shards that were finished last; None before two are."""
    seconds_left: float | None

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "command": self.command,
            "shards": self.num_shards,
            "done": self.num_done,
            "failed": dict(self.failures),
            "images": self.num_images,
            "errors": self.num_errors,
            "worker_seconds": self.worker_seconds,
            "images_per_second": self.images_per_second,
            "seconds_left": self.seconds_left,
        }

    def lines(self) -> list[str]:
        """The same as text."""
        share = 100 * self.num_done / max(1, self.num_shards)
        lines = [
            f"shards: {self.num_done:,} of {self.num_shards:,} done ({share:.1f} %), {len(self.failures):,} failed"
        ]
        rate = "" if self.images_per_second is None else f", {self.images_per_second:.1f} per second"
        lines.append(f"images: {self.num_images:,} done, {self.num_errors:,} of them failed{rate}")
        if self.seconds_left is not None:
            lines.append(f"time left: {format_seconds(self.seconds_left)}")
        return [*lines, *(f"failed: {escape_controls(name)}: {reason}" for name, reason in self.failures.items())]


def read_status(folder: Location) -> Status:
    """Read the job file, the reports and the failures of a job's folder."""
    file = JobFile.read(folder)
    names = [str(shard["name"]) for shard in file.shards]
    job = Job(folder=folder, fingerprint=file.fingerprint)
    entries = {entry.name: entry for entry in folder.list_files()}
    reports = job.read_reports(names)
    failures = {
        name: _read_reason(job.failure_file(name))
        for name in names
        if f"{name}{FAILURE}" in entries and name not in reports
    }
    recent = sorted(reports.values(), key=lambda report: entries[f"{report.shard}{REPORT}"].modified)[-_RECENT:]
    times = [entries[f"{report.shard}{REPORT}"].modified / 1e9 for report in recent]
    rate = None
    if len(times) > 1 and times[-1] > times[0]:
        rate = sum(report.num_images for report in recent[1:]) / (times[-1] - times[0])
    num_images = sum(report.num_images for report in reports.values())
    left = None
    if rate:
        left = (len(names) - len(reports)) * (num_images / len(reports)) / rate
    return Status(
        command=str(file.settings.get("command")),
        num_shards=len(names),
        num_done=len(reports),
        failures=failures,
        num_images=num_images,
        num_errors=sum(report.num_errors for report in reports.values()),
        worker_seconds=sum(report.seconds for report in reports.values()),
        images_per_second=rate,
        seconds_left=left,
    )


def format_seconds(seconds: float) -> str:
    """Format a time in its two largest units.

    >>> format_seconds(42), format_seconds(3700), format_seconds(90_000)
    ('42 s', '1 h 1 min', '1 d 1 h')
    """
    rest = round(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def _read_reason(file: Location) -> str:
    content = parse_json(file.read_bytes("a failure", max_bytes=1 << 20), file.name)
    return str(content.get("reason")) if isinstance(content, dict) else "unknown"
