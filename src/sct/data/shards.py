"""Build a table part by part, by several processes; parts that are there already are not made again."""

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
from sct.data.table import build_table, save_table
from sct.errors import InputError

IMAGES_PER_SHARD = 2000
"""What a kill can cost: some ten seconds of work for each process."""


@dataclass(frozen=True, slots=True)
class Part:
    """A finished part."""

    file: Path
    num_images: int


def build_shards(
    images: Iterator[AnnotatedImage],
    folder: Path,
    recipe: GrounderConfig | None,
    *,
    num_images: int | None,
    workers: int | None,
) -> Iterator[Part]:
    """Ground images, unless there is no recipe for it, and write them in parts; yield the parts in order."""
    workers = workers or os.cpu_count() or 1
    jobs = _jobs(images, folder)
    if workers == 1 or (num_images is not None and num_images <= IMAGES_PER_SHARD):
        _start_worker(recipe)
        for job in jobs:
            if not job.file.exists():
                _work(job)
            yield Part(job.file, len(job.images))
        return
    waiting: deque[tuple[_Job, Future[None] | None]] = deque()
    with ProcessPoolExecutor(workers, get_context("spawn"), _start_worker, (recipe, True)) as pool:
        try:
            for job in jobs:
                waiting.append((job, None if job.file.exists() else pool.submit(_work, job)))
                if len(waiting) > 2 * workers:
                    yield _finished(*waiting.popleft())
            while waiting:
                yield _finished(*waiting.popleft())
        except BrokenProcessPool as error:
            raise InputError(
                "a process that parses captions was killed, perhaps for want of memory: "
                "run the same command again to go on, with fewer --workers"
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


def _finished(job: _Job, future: Future[None] | None) -> Part:
    if future is not None:
        future.result()
    return Part(job.file, len(job.images))


_grounder: Grounder | None = None


def _start_worker(recipe: GrounderConfig | None, is_child: bool = False) -> None:
    """Load parser and vectors once for each process, which must not outlive the one that started it."""
    global _grounder  # noqa: PLW0603
    _grounder = None if recipe is None else recipe.make()
    parent = parent_process()
    if is_child and parent is not None:
        threading.Thread(target=_end_with, args=(parent.join,), daemon=True).start()


def _end_with(wait: Callable[[], None]) -> None:
    wait()
    os._exit(1)


def _work(job: _Job) -> None:
    images: Sequence[AnnotatedImage] = job.images if _grounder is None else list(_grounder.ground(job.images))
    save_table(build_table(images), job.file)
