"""Load batches of images for a vision encoder, decoded and resized ahead of their use."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context

import numpy as np
from jaxtyping import Int, UInt8

from sct.errors import InputError
from sct.regions.image_source import ImageSource
from sct.storage.cpus import count_cpus
from sct.vision.preprocess import resize_square

_CHUNK_SIZE = 32
"""Images that a worker loads at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class PixelBatch:
    """Images of a batch as squares."""

    names: list[str]
    sizes: Int[np.ndarray, "images 2"]
    """Width and height of the original images."""
    pixels: UInt8[np.ndarray, "images 3 side side"]


def load_batches(
    source: ImageSource,
    names: Sequence[str],
    image_size: int,
    batch_size: int,
    *,
    in_processes: bool,
    on_error: Callable[[InputError], None],
) -> Iterator[PixelBatch]:
    """Load images as squares in their order; unreadable ones are reported and left out.

    Ahead of a GPU, decode ``in_processes``: threads of one process wait for its lock. Beside a CPU a thread is enough.
    """
    chunk_size, workers = min(_CHUNK_SIZE, batch_size), count_cpus() if in_processes else 1
    chunks = (names[start : start + chunk_size] for start in range(0, len(names), chunk_size))
    per_batch = batch_size // chunk_size
    with _open_pool(source, image_size, workers, in_processes=in_processes) as pool:
        pending = deque(pool.submit(_load, chunk) for chunk in islice(chunks, 2 * workers + per_batch))
        while pending:
            loaded = []
            for _ in range(min(per_batch, len(pending))):
                loaded.append(pending.popleft().result())
                pending.extend(pool.submit(_load, chunk) for chunk in islice(chunks, 1))
            for message in (message for chunk in loaded for message in chunk.errors):
                on_error(InputError(message))
            if any(chunk.batch.names for chunk in loaded):
                yield _join([chunk.batch for chunk in loaded])


@dataclass(frozen=True, slots=True, eq=False)
class _Chunk:
    batch: PixelBatch
    errors: list[str]


_worker = threading.local()
"""Source and size of the images that a worker loads: pickled once, not with every task."""


def _open_pool(source: ImageSource, image_size: int, workers: int, *, in_processes: bool) -> Executor:
    arguments = (source, image_size)
    if in_processes:
        return ProcessPoolExecutor(workers, get_context("spawn"), _init_worker, arguments)
    return ThreadPoolExecutor(workers, initializer=_init_worker, initargs=arguments)


def _init_worker(source: ImageSource, image_size: int) -> None:
    _worker.source, _worker.image_size = source, image_size


def _load(names: Sequence[str]) -> _Chunk:
    loaded, sizes, squares, errors = [], [], [], []
    for name in names:
        try:
            image = _worker.source.load(name)
        except InputError as error:
            errors.append(str(error))
            continue
        loaded.append(name)
        sizes.append((image.width, image.height))
        squares.append(resize_square(image.pixels, _worker.image_size))
    side = _worker.image_size
    pixels = np.stack(squares) if squares else np.zeros((0, 3, side, side), np.uint8)
    return _Chunk(PixelBatch(loaded, np.array(sizes, np.int64).reshape(-1, 2), pixels), errors)


def _join(batches: Sequence[PixelBatch]) -> PixelBatch:
    return PixelBatch(
        [name for batch in batches for name in batch.names],
        np.concatenate([batch.sizes for batch in batches]),
        np.concatenate([batch.pixels for batch in batches]),
    )
