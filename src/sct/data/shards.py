"""Ground images and write them as table shards, in several processes; existing shards are reused."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context, parent_process
from pathlib import Path

from sct.data.grounding.grounder import Grounder, GrounderConfig
from sct.data.records import AnnotatedImage
from sct.data.table import build_table
from sct.data.table_file import save_table
from sct.errors import InputError

IMAGES_PER_SHARD = 2000
"""Work lost when a run is killed: about ten seconds per process."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A finished shard."""

    file: Path
    num_images: int


def build_shards(
    images: Iterator[AnnotatedImage],
    folder: Path,
    grounding: GrounderConfig | None,
    *,
    num_images: int | None,
    workers: int | None,
) -> Iterator[Shard]:
    """Ground images, unless ``grounding`` is None, and write them as shards; yield the shards in order."""
    workers = workers or os.cpu_count() or 1
    jobs = _jobs(images, folder)
    if workers == 1 or (num_images is not None and num_images <= IMAGES_PER_SHARD):
        _init_worker(grounding)
        for job in jobs:
            if not job.file.exists():
                _build_shard(job)
            yield Shard(job.file, len(job.images))
        return
    pending: deque[tuple[_Job, Future[None] | None]] = deque()
    with ProcessPoolExecutor(workers, get_context("spawn"), _init_worker, (grounding, True)) as pool:
        try:
            for job in jobs:
                pending.append((job, None if job.file.exists() else pool.submit(_build_shard, job)))
                if len(pending) > 2 * workers:
                    yield _wait_for(*pending.popleft())
            while pending:
                yield _wait_for(*pending.popleft())
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


def _jobs(images: Iterator[AnnotatedImage], folder: Path) -> Iterator[_Job]:
    number = 0
    while batch := tuple(islice(images, IMAGES_PER_SHARD)):
        yield _Job(batch, folder / f"{number:06}.safetensors")
        number += 1


def _wait_for(job: _Job, future: Future[None] | None) -> Shard:
    if future is not None:
        future.result()
    return Shard(job.file, len(job.images))


_grounder: Grounder | None = None


def _init_worker(grounding: GrounderConfig | None, is_child: bool = False) -> None:
    """Load parser and word vectors once per process; a child process exits when its parent does."""
    global _grounder  # noqa: PLW0603
    _grounder = None if grounding is None else grounding.build()
    parent = parent_process()
    if is_child and parent is not None:
        threading.Thread(target=_exit_after, args=(parent.join,), daemon=True).start()


def _exit_after(wait: Callable[[], None]) -> None:
    wait()
    os._exit(1)


def _build_shard(job: _Job) -> None:
    images: Sequence[AnnotatedImage] = job.images if _grounder is None else list(_grounder.ground(job.images))
    save_table(build_table(images), job.file)
