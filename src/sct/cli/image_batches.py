"""Process many image files in batches; unreadable or rejected ones are reported and skipped."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Generic, TypeVar

import typer

from sct.captioner.requests import IMAGE_BATCH_SIZE
from sct.cli.printing import print_json, print_message, print_note
from sct.cli.progress import progress_bar
from sct.cli.results_file import ResultsFile, open_results
from sct.errors import InputError
from sct.regions.images import LoadedImage, list_folder, load_image, natural_key, no_image_error

ResultT = TypeVar("ResultT")

_URL = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/.*")


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
        print_message(error)


class ImageRun:
    """Images to process and where their results go; made by ``open_run``."""

    def __init__(
        self, files: Sequence[Path], errors: ErrorReporter, results: ResultsFile | None, *, as_json: bool
    ) -> None:
        """``results`` is the file to write to; without one, results are printed."""
        self.files = files if results is None else results.remaining(files)
        self.num_skipped = len(files) - len(self.files)
        self.num_done = 0
        self.seconds = 0.0
        self._errors, self._results, self._as_json = errors, results, as_json

    def process(self, process: Callable[[Sequence[ImageJob]], Sequence[ResultT]]) -> Iterator[ImageResult[ResultT]]:
        """Process the images; on a terminal, show the progress."""
        start = perf_counter()
        is_json_on_terminal = self._results is None and self._as_json and sys.stdout.isatty()
        with progress_bar("images", hidden=len(self.files) < 2 or is_json_on_terminal) as progress:
            for result in process_images(self.files, process, self._errors):
                yield result
                progress(self.num_done, len(self.files))
        self.seconds = perf_counter() - start

    def write(self, record: Mapping[str, Any], print_text: Callable[[], None]) -> None:
        """Write or print the result of an image: as JSON, or by ``print_text``."""
        if self._results is not None:
            self._results.write(record)
        elif self._as_json:
            print_json(record)
        else:
            print_text()
        self.num_done += 1

    def summary(self) -> str:
        """Numbers of images and their rate."""
        rate = f", {self.num_done / self.seconds:.1f} per second" if self.num_done and self.seconds else ""
        return f"images: {self.num_done:,} done, {self.num_skipped:,} skipped, {self._errors.count:,} failed{rate}"


@contextmanager
def open_run(
    files: Sequence[Path],
    errors: ErrorReporter,
    *,
    out: Path | None,
    settings: Mapping[str, Any],
    as_json: bool,
) -> Iterator[ImageRun]:
    """Open the file of results, if any; at the end, print a summary of several images and exit with 2 after errors."""
    with ExitStack() as stack:
        results = None if out is None else stack.enter_context(open_results(out, settings))
        run = ImageRun(files, errors, results, as_json=as_json)
        yield run
    sys.stdout.flush()
    if len(files) > 1 or out is not None:
        print_note(run.summary())
    if errors.count:
        raise typer.Exit(2)


def list_image_files(paths: Iterable[Path], errors: ErrorReporter, *, recursive: bool = False) -> list[Path]:
    """List image files and those in folders; folders without any are reported, skipped subfolders are counted."""
    files: list[Path] = []
    for path in paths:
        if not _is_folder(path):
            files.append(path)
            continue
        try:
            inside = [file for folder in (_walk(path, errors) if recursive else [path]) for file in list_folder(folder)]
            num_skipped = 0 if recursive else sum(map(_is_subfolder, path.iterdir()))
            hint = f"subfolders are skipped ({num_skipped:,}): --recursive includes them"
            if not inside:
                error = no_image_error(path)
                raise InputError(f"{error}; {hint}") if num_skipped else error
            if num_skipped:
                print_note(f"{path}: {hint}")
        except InputError as error:
            errors.report(error)
        else:
            files += inside
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


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name that is too long, or a folder that may not be entered: reported when it is loaded
        return False


def _is_subfolder(path: Path) -> bool:
    return not path.name.startswith(".") and _is_folder(path)


def _walk(folder: Path, errors: ErrorReporter) -> Iterator[Path]:
    """The folder and its subfolders in natural order, without hidden ones and links; unreadable ones are reported."""

    def report(error: OSError) -> None:
        errors.report(InputError(f"folder {error.filename} cannot be listed: {error.strerror or error}"))

    for root, names, _ in os.walk(folder, onerror=report):
        names[:] = sorted((name for name in names if not name.startswith(".")), key=natural_key)
        yield Path(root)


def _load(files: Iterable[Path], errors: ErrorReporter) -> Iterator[ImageJob]:
    for file in files:
        try:
            if _URL.fullmatch(str(file)) and not os.path.lexists(file):
                url = file.as_posix().replace(":/", "://", 1)  # Path has merged the slashes
                raise InputError(
                    f"{url} is a URL: expected a file, or --fetch FOLDER, which downloads the image to a folder first"
                )
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
    return error if str(error).startswith(name) else InputError(f"{name}: {error}")
