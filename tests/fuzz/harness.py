"""Run readers on damaged copies of valid files, within bounded memory and time."""

import hashlib
import resource
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType

from tests.fuzz.targets import Target

MEMORY_MARGIN = 4 << 30
"""Address space that a case may use beyond what the process has already."""
TIME_LIMIT = 20.0
"""Seconds per case: far more than any needs on a busy machine, and enough to tell a loop without end."""


class TooSlow(BaseException):
    """A case took longer than ``TIME_LIMIT``; not an ``Exception``, which readers may catch."""


def run_case(target: Target, random: Random, folder: Path) -> bool:
    """Damage one file of a target and read it; returns whether it was accepted."""
    name = random.choice([name for name in target.files if name not in target.stable])
    files = {**target.files, name: target.mutate(random, name)}
    if random.random() < 0.75:
        files = reseal(files, target.files, name)
    try:
        read_case(target, files, folder)
    except target.errors:
        return False
    except BaseException as error:
        error.add_note(f"{target.name}: damaged {name}, {len(files[name]):,} bytes: {files[name][:300]!r}")
        raise
    return True


def read_case(target: Target, files: Mapping[str, bytes], folder: Path) -> None:
    """Write files into a temporary folder and read them."""
    case = Path(tempfile.mkdtemp(dir=folder))
    try:
        for path, content in files.items():
            (case / path).parent.mkdir(parents=True, exist_ok=True)
            (case / path).write_bytes(content)
        with limits():
            target.read(case)
    finally:
        shutil.rmtree(case)


def reseal(files: Mapping[str, bytes], valid: Mapping[str, bytes], name: str) -> dict[str, bytes]:
    """Replace the checksum of a changed file wherever another file records it, so that checks behind it are reached."""
    resealed = dict(files)
    changed = [name]
    while changed:
        current = changed.pop()
        before, after = (
            hashlib.sha256(content).hexdigest().encode() for content in (valid[current], resealed[current])
        )
        for other, content in resealed.items():
            if other != current and before in content:
                resealed[other] = content.replace(before, after)
                changed.append(other)
    return resealed


@contextmanager
def limits() -> Iterator[None]:
    """Limit memory and time of a block."""

    def stop(_: int, __: FrameType | None) -> None:
        raise TooSlow

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY_MARGIN, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
