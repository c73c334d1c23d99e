"""Process many image files in batches; unreadable or rejected ones are reported and skipped."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from sct.captioner.requests import IMAGE_BATCH_SIZE
from sct.errors import InputError
from sct.regions.images import LoadedImage, list_images, load_image

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, eq=False)
class ImageJob:
    """A loaded image and its file."""

    file: Path
    image: LoadedImage


@dataclass(frozen=True, slots=True, eq=False)
class ImageResult(Generic[ResultT]):
    """Result of a job."""

    job: ImageJob
    value: ResultT


@dataclass(slots=True)
class ErrorReporter:
    """Prints errors on stderr, a line each, and counts them."""

    count: int = field(default=0, init=False)

    def report(self, error: InputError) -> None:
        """Print an error."""
        self.count += 1
        print(f"sct: {' '.join(str(error).split())}", file=sys.stderr)


def list_image_files(paths: Iterable[Path], errors: ErrorReporter) -> list[Path]:
    """List image files and those in folders; folders without any are reported."""
    files: list[Path] = []
    for path in paths:
        try:
            files += list_images([path])
        except InputError as error:
            errors.report(error)
    return files


def process_images(
    files: Sequence[Path], process: Callable[[Sequence[ImageJob]], Sequence[ResultT]], errors: ErrorReporter
) -> Iterator[ImageResult[ResultT]]:
    """Load images and process them in batches, yielding results as they are made.

    If a batch fails, its images are processed one by one, so that only the bad ones are skipped.
    """
    for start in range(0, len(files), IMAGE_BATCH_SIZE):
        jobs = list(_load(files[start : start + IMAGE_BATCH_SIZE], errors))
        try:
            values = process(jobs) if jobs else []
        except InputError as error:
            if len(jobs) == 1:
                errors.report(_with_file(jobs[0], error))
            else:
                yield from _process_singly(jobs, process, errors)
            continue
        yield from (ImageResult(job, value) for job, value in zip(jobs, values, strict=True))


def _load(files: Iterable[Path], errors: ErrorReporter) -> Iterator[ImageJob]:
    for file in files:
        try:
            yield ImageJob(file, load_image(file))
        except InputError as error:
            errors.report(error)


def _process_singly(
    jobs: Sequence[ImageJob], process: Callable[[Sequence[ImageJob]], Sequence[ResultT]], errors: ErrorReporter
) -> Iterator[ImageResult[ResultT]]:
    for job in jobs:
        try:
            [value] = process([job])
        except InputError as error:
            errors.report(_with_file(job, error))
            continue
        yield ImageResult(job, value)


def _with_file(job: ImageJob, error: InputError) -> InputError:
    name = str(job.file)
    return error if name in str(error) else InputError(f"{name}: {error}")
