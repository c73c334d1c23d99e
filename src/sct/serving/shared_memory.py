"""Memory that the worker processes of one server share; it has no name and ends with them.

All of it is anonymous and mapped before the workers are forked, so nothing is written to disk and nothing is left when
every process is killed. A process that is killed while it holds the lock releases it, and leaves what it was writing
unpublished.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import mmap

import numpy as np

_BYTES_PER_ENTRY = 1 << 16
_MIN_ENTRIES = 64
_MAX_NAME = 64
_MAX_METRICS_BYTES = 1 << 17
_NOT_READY = -1


class ProcessLock:
    """Lock between the threads of all processes that are forked after it was made."""

    def __init__(self) -> None:
        import fcntl  # noqa: PLC0415 - Unix only

        self._fcntl, self._file = fcntl, os.memfd_create("sct lock")
        self._lock = threading.Lock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Hold the lock; the kernel releases it if the process dies."""
        with self._lock:
            self._fcntl.lockf(self._file, self._fcntl.LOCK_EX)
            try:
                yield
            finally:
                self._fcntl.lockf(self._file, self._fcntl.LOCK_UN)


class SharedStore:
    """Ring buffer of byte strings by name: the oldest ones are overwritten."""

    def __init__(self, max_bytes: int) -> None:
        """``max_bytes``: total size; memory is taken as it is used."""
        self._hold = ProcessLock()
        num_entries = max(_MIN_ENTRIES, max_bytes // _BYTES_PER_ENTRY)
        entry = np.dtype([("name", f"S{_MAX_NAME}"), ("start", np.int64), ("size", np.int64)])
        self._entries = np.frombuffer(mmap(-1, num_entries * entry.itemsize), entry)
        """Those of size 0 are free."""
        self._next = np.frombuffer(mmap(-1, 16), np.int64)
        """Index of the next entry, and where its bytes start."""
        self._bytes = memoryview(mmap(-1, max_bytes))

    def get(self, name: str) -> bytes | None:
        """Return the bytes of a name."""
        with self._hold():
            [found] = np.nonzero((self._entries["name"] == name.encode()) & (self._entries["size"] > 0))
            if not len(found):
                return None
            start, size = (int(self._entries[found[0]][field]) for field in ("start", "size"))
            return bytes(self._bytes[start : start + size])

    def add(self, name: str, content: bytes) -> None:
        """Store the bytes of a name unless it is there; larger ones than the whole store are not stored."""
        key, size, entries = name.encode(), len(content), self._entries
        if not 0 < size <= len(self._bytes) or len(key) > _MAX_NAME:
            return
        with self._hold():
            if ((entries["name"] == key) & (entries["size"] > 0)).any():
                return
            index, start = map(int, self._next)
            if start + size > len(self._bytes):
                start = 0
            overwritten = (entries["start"] < start + size) & (start < entries["start"] + entries["size"])
            entries["size"][overwritten] = 0
            entries["size"][index] = 0
            self._bytes[start : start + size] = content
            entries["name"][index], entries["start"][index] = key, start
            self._next[:] = (index + 1) % len(entries), start + size
            entries["size"][index] = size  # last: from here on it is found


class WorkerBoard:
    """State of all workers: whether they are ready, their open connections and their metrics."""

    def __init__(self, num_workers: int) -> None:
        """Start with no worker ready."""
        self._hold = ProcessLock()
        self._connections = np.frombuffer(mmap(-1, 8 * num_workers), np.int64)
        self._connections[:] = _NOT_READY
        self._metrics_size = np.frombuffer(mmap(-1, 8 * num_workers), np.int64)
        self._metrics = memoryview(mmap(-1, _MAX_METRICS_BYTES * num_workers))

    @property
    def num_workers(self) -> int:
        """Number of workers that there should be."""
        return len(self._connections)

    @property
    def num_ready(self) -> int:
        """Number of workers that accept connections."""
        return int((self._connections != _NOT_READY).sum())

    def is_ready(self, worker: int) -> bool:
        """Whether a worker accepts connections."""
        return bool(self._connections[worker] != _NOT_READY)

    def set_connections(self, worker: int, num_open: int) -> None:
        """Note the open connections of a worker, which makes it ready."""
        self._connections[worker] = num_open

    def has_fewer_connections(self, worker: int) -> bool:
        """Whether another worker has fewer open connections than this one."""
        ready = self._connections[self._connections != _NOT_READY]
        return bool((ready < self._connections[worker]).any())

    def clear(self, worker: int) -> None:
        """Forget a worker that has died."""
        self._connections[worker] = _NOT_READY
        with self._hold():
            self._metrics_size[worker] = 0

    def publish_metrics(self, worker: int, text: str) -> None:
        """Replace the metrics of a worker."""
        content = text.encode()
        if len(content) > _MAX_METRICS_BYTES:
            raise ValueError(f"got metrics of {len(content)} bytes, expected at most {_MAX_METRICS_BYTES}")
        start = worker * _MAX_METRICS_BYTES
        with self._hold():
            self._metrics_size[worker] = 0
            self._metrics[start : start + len(content)] = content
            self._metrics_size[worker] = len(content)

    def read_metrics(self) -> dict[int, str]:
        """Return the metrics of each worker as it last published them."""
        with self._hold():
            return {
                worker: bytes(self._metrics[worker * _MAX_METRICS_BYTES :][:size]).decode()
                for worker, size in enumerate(self._metrics_size.tolist())
                if size
            }
