"""Many images on one command line: a few at a time, and one that is bad does not stop the rest."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from sct.errors import InputError
from sct.regions.images import LoadedImage, list_images, load_image

IMAGES_AT_ONCE = 8

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """An image and where it came from."""

    file: Path
    image: LoadedImage


@dataclass(frozen=True, slots=True, eq=False)
class Done(Generic[Found]):
    """What came of an image."""

    job: Job
    found: Found


@dataclass(slots=True)
class Complaints:
    """Tells on stderr, a line each, what could not be used, and remembers that there was something."""

    count: int = field(default=0, init=False)

    def tell(self, error: InputError) -> None:
        """Tell of one."""
        self.count += 1
        print(f"sct: {' '.join(str(error).split())}", file=sys.stderr)


def found_files(paths: Iterable[Path], complaints: Complaints) -> list[Path]:
    """All images that are named, those of folders among them; a folder without any is told of."""
    files: list[Path] = []
    for path in paths:
        try:
            files += list_images([path])
        except InputError as error:
            complaints.tell(error)
    return files


def each_image(
    files: Sequence[Path], work: Callable[[Sequence[Job]], Sequence[Found]], complaints: Complaints
) -> Iterator[Done[Found]]:
    """Open images and work on a few at a time; what was done is given back at once, so memory stays flat.

    Where the work refuses some images together, each of them is tried alone: the rest is not to suffer from one.
    """
    for start in range(0, len(files), IMAGES_AT_ONCE):
        jobs = list(_opened(files[start : start + IMAGES_AT_ONCE], complaints))
        try:
            found = work(jobs) if jobs else []
        except InputError as error:
            if len(jobs) == 1:
                complaints.tell(_named(jobs[0], error))
            else:
                yield from _one_by_one(jobs, work, complaints)
            continue
        yield from (Done(job, each) for job, each in zip(jobs, found, strict=True))


def _opened(files: Iterable[Path], complaints: Complaints) -> Iterator[Job]:
    for file in files:
        try:
            yield Job(file, load_image(file))
        except InputError as error:
            complaints.tell(error)


def _one_by_one(
    jobs: Sequence[Job], work: Callable[[Sequence[Job]], Sequence[Found]], complaints: Complaints
) -> Iterator[Done[Found]]:
    for job in jobs:
        try:
            [found] = work([job])
        except InputError as error:
            complaints.tell(_named(job, error))
            continue
        yield Done(job, found)


def _named(job: Job, error: InputError) -> InputError:
    name = str(job.file)
    return error if name in str(error) else InputError(f"{name}: {error}")
