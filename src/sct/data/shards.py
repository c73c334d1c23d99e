"""Ground images and write them as table shards, in several processes; existing shards are reused."""

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from multiprocessing import active_children, get_context
from pathlib import Path

from sct.data.grounding.config import GrounderConfig
from sct.data.grounding.grounder import Grounder
from sct.data.readers.errors import ReadErrors
from sct.data.records import AnnotatedImage
from sct.data.table import build_table
from sct.data.table_file import save_table
from sct.errors import InputError
from sct.storage.cpus import count_cpus
from sct.storage.processes import deferred_interrupts, exit_with_parent

IMAGES_PER_SHARD = 2000
"""Work lost when a run is killed: about ten seconds per process."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A finished shard."""

    file: Path
    num_images: int
    num_captions: int
    """Captions handed to the grounder; the shard lacks those that it could not ground."""
    read_errors: Sequence[str] = ()
    """Captions that could not be grounded; empty for a shard of an earlier run."""


def build_shards(
    images: Iterator[AnnotatedImage],
    folder: Path,
    grounding: GrounderConfig | None,
    *,
    num_images: int | None,
    workers: int | None,
    skip_bad: bool = False,
) -> Generator[Shard, None, None]:
    """Ground images, unless ``grounding`` is None, and write them as shards; yield the shards in order."""
    workers = workers or count_cpus()
    jobs = _jobs(images, folder, skip_bad)
    if workers == 1 or (num_images is not None and num_images <= IMAGES_PER_SHARD):
        _init_worker(grounding)
        for job in jobs:
            yield job.finish([] if job.file.exists() else _build_shard(job))
        return
    pending: deque[tuple[_Job, Future[list[str]] | None]] = deque()
    others = set(active_children())
    with ProcessPoolExecutor(workers, get_context("spawn"), _init_worker, (grounding, True)) as pool:
        try:
            for job in jobs:
                with deferred_interrupts():
                    pending.append((job, None if job.file.exists() else pool.submit(_build_shard, job)))
                if len(pending) > 2 * workers:
                    yield _wait_for(*pending.popleft())
            while pending:
                yield _wait_for(*pending.popleft())
        except (KeyboardInterrupt, GeneratorExit):
            for process in set(active_children()) - others:
                process.terminate()
            raise
        except BrokenProcessPool as error:
            raise InputError(
                "a worker process was killed, possibly out of memory: run the same command again to resume, "
                "with fewer --workers"
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Job:
    images: tuple[AnnotatedImage, ...]
    file: Path
    skip_bad: bool

    def finish(self, read_errors: Sequence[str]) -> Shard:
        return Shard(self.file, len(self.images), sum(len(image.captions) for image in self.images), read_errors)


def _jobs(images: Iterator[AnnotatedImage], folder: Path, skip_bad: bool) -> Iterator[_Job]:
    number = 0
    while batch := tuple(islice(images, IMAGES_PER_SHARD)):
        yield _Job(batch, folder / f"{number:06}.safetensors", skip_bad)
        number += 1


def _wait_for(job: _Job, future: Future[list[str]] | None) -> Shard:
    return job.finish([] if future is None else future.result())


_grounder: Grounder | None = None


def _init_worker(grounding: GrounderConfig | None, is_child: bool = False) -> None:
    """Load parser and word vectors once per process; a child process exits when its parent does."""
    global _grounder  # noqa: PLW0603
    _grounder = None if grounding is None else grounding.build()
    if is_child:
        exit_with_parent()


def _build_shard(job: _Job) -> list[str]:
    """Write a shard; return what could not be grounded."""
    errors = ReadErrors(skip=job.skip_bad)
    images: Sequence[AnnotatedImage] = job.images if _grounder is None else list(_grounder.ground(job.images, errors))
    save_table(build_table(images), job.file)
    return errors.messages
