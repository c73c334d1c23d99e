"""Dynamic batching of requests for the model, and a bounded thread pool for other work."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Generic, ParamSpec, TypeVar

from sct.errors import InputError
from sct.serving.counters import Counters

_log = logging.getLogger(__name__)

P = ParamSpec("P")
TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")


class QueueFull(Exception):  # noqa: N818
    """The queue has reached its limit."""


class ServerStopping(Exception):  # noqa: N818
    """No further tasks are accepted."""


class InternalError(Exception):
    """Internal error; see the server log."""


class BoundedExecutor:
    """Thread pool with a bounded queue; calls cancelled before they start are skipped."""

    def __init__(self, name: str, *, threads: int, max_calls: int) -> None:
        """``max_calls``: running and queued calls together."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._max_calls, self._num_calls = max_calls, 0
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    async def run(self, function: Callable[P, ResultT], *args: P.args, **kwargs: P.kwargs) -> ResultT:
        """Call a function in a thread and return its result."""
        with self._lock:
            if self._stopped.is_set():
                raise ServerStopping
            if self._num_calls >= self._max_calls:
                raise QueueFull
            self._num_calls += 1
            future = self._pool.submit(function, *args, **kwargs)
        future.add_done_callback(self._release)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if self._stopped.is_set() and future.cancelled():
                raise ServerStopping from None
            raise

    def _release(self, _: "Future[ResultT]") -> None:
        with self._lock:
            self._num_calls -= 1

    def stop(self) -> None:
        """Finish running calls, cancel queued ones and end the threads."""
        with self._lock:
            self._stopped.set()
        self._pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True, eq=False)
class _Job(Generic[TaskT, ResultT]):
    task: TaskT
    deadline: float
    """In ``time.monotonic`` seconds; later jobs are not started."""
    future: "Future[ResultT]" = field(default_factory=Future)
    is_retry: bool = False
    """Whether it was part of a batch that failed; it is then run alone."""


class DynamicBatcher(Generic[TaskT, ResultT]):
    """Queues tasks and runs them in batches in one thread.

    Tasks queue while a batch runs; when idle, the first task waits up to ``max_delay`` for others. A batch encodes at
    most ``max_new_images`` images; tasks that would exceed it are overtaken by those that need no encoding.

    Tasks of a batch that fails are run again, one by one. A thread that dies is replaced after ``restart_delay``; while
    stopping it is not, and queued tasks fail.
    """

    def __init__(
        self,
        run_batch: Callable[[Sequence[TaskT]], Sequence[ResultT | InputError]],
        counters: Counters,
        *,
        max_queue: int,
        max_batch: int,
        max_delay: float,
        encode_key: Callable[[TaskT], str | None] = lambda _: None,
        max_new_images: int = 1,
        restart_delay: float = 1.0,
    ) -> None:
        """Start the thread; ``stop`` ends it.

        ``encode_key`` returns the id of the image that a task needs encoded, if any; tasks may share it.
        """
        self._encode_key, self._max_new_images = encode_key, max_new_images
        self._run_batch, self._counters = run_batch, counters
        self._max_queue, self._max_batch, self._max_delay = max_queue, max_batch, max_delay
        self._restart_delay = restart_delay
        self._jobs: deque[_Job[TaskT, ResultT]] = deque()
        self._changed = threading.Condition()
        self.is_stopping = False
        self._has_died = False
        self._start_thread()

    def submit(self, task: TaskT, deadline: float) -> "Future[ResultT]":
        """Queue a task; cancelling the future before the task starts removes it."""
        job: _Job[TaskT, ResultT] = _Job(task, deadline)
        with self._changed:
            if self.is_stopping:
                raise ServerStopping
            if len(self._jobs) >= self._max_queue:
                raise QueueFull
            self._jobs.append(job)
            self._changed.notify_all()
        return job.future

    @property
    def is_running(self) -> bool:
        """Whether the thread is alive."""
        return self._thread.is_alive() and not self._has_died

    @property
    def queue_length(self) -> int:
        """Number of queued tasks."""
        return len(self._jobs)

    @property
    def num_new_images(self) -> int:
        """Number of different images that queued tasks need encoded."""
        with self._changed:
            return len({self._encode_key(job.task) for job in self._jobs} - {None})

    def stop(self) -> None:
        """Accept no more tasks, finish the queue and end the thread."""
        with self._changed:
            self.is_stopping = True
            self._changed.notify_all()
        thread = None
        while thread is not self._thread:  # it may be replaced meanwhile
            thread = self._thread
            thread.join()

    def _start_thread(self) -> None:
        with self._changed:  # which the new thread needs before all else, so it cannot be replaced too early
            thread = threading.Thread(target=self._supervise, name="sct model", daemon=True)
            thread.start()
            self._thread = thread

    def _supervise(self) -> None:
        """Run the loop; if it dies of anything, replace this thread by a new one."""
        try:
            self._loop()
        except BaseException:  # whatever ends the thread, callers must not wait in vain
            self._has_died = True
            _log.exception("the model thread died; a new one starts in %g seconds", self._restart_delay)
            with self._changed:
                if self._changed.wait_for(lambda: self.is_stopping, self._restart_delay):
                    self._fail_queue()  # a new thread might die of the same, without end
                    return
            self._counters.add_model_restart()
            self._has_died = False
            self._start_thread()

    def _fail_queue(self) -> None:
        for job in self._jobs:
            if job.future.running() or job.future.set_running_or_notify_cancel():
                job.future.set_exception(InternalError())
        self._jobs.clear()

    def _loop(self) -> None:
        while jobs := self._next_batch():
            try:
                self._process(jobs)
            except BaseException as error:  # the thread survives any error of a batch, but not an exit
                self._fail([job for job in jobs if not job.future.done()])
                if not isinstance(error, Exception):
                    raise

    def _next_batch(self) -> list[_Job[TaskT, ResultT]]:
        """Wait for the next batch; empty when the thread should end."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self.is_stopping)
            if not self.is_stopping and self._max_delay and not self._jobs[0].is_retry:
                self._changed.wait_for(lambda: len(self._jobs) >= self._max_batch or self.is_stopping, self._max_delay)
            return self._take()

    def _take(self) -> list[_Job[TaskT, ResultT]]:
        """Remove the jobs of one batch from the queue."""
        batch: list[_Job[TaskT, ResultT]] = []
        remaining: deque[_Job[TaskT, ResultT]] = deque()
        new_images: set[str] = set()
        if self._jobs and self._jobs[0].is_retry:
            return [self._jobs.popleft()]
        for job in self._jobs:
            key = self._encode_key(job.task)
            is_new = key is not None and key not in new_images
            if len(batch) == self._max_batch or (is_new and len(new_images) == self._max_new_images):
                remaining.append(job)
                continue
            batch.append(job)
            if key is not None:
                new_images.add(key)
        self._jobs = remaining
        return batch

    def _process(self, jobs: Sequence[_Job[TaskT, ResultT]]) -> None:
        start = time.monotonic()
        active: list[_Job[TaskT, ResultT]] = []
        for job in jobs:
            if job.deadline < start and not job.future.cancel():  # one that is run again cannot be cancelled
                job.future.set_exception(InternalError())
                self._counters.add_cancelled()
            elif job.future.running() or job.future.set_running_or_notify_cancel():
                active.append(job)
            else:
                self._counters.add_cancelled()
        if not active:
            return
        try:
            results = self._run_batch([job.task for job in active])
        finally:
            self._counters.add_batch(len(active), time.monotonic() - start)
        for job, result in zip(active, results, strict=True):
            if isinstance(result, InputError):
                job.future.set_exception(result)
            else:
                job.future.set_result(result)

    def _fail(self, jobs: Sequence[_Job[TaskT, ResultT]]) -> None:
        """Queue the jobs of a failed batch again, first and one by one; a job that failed alone gets an error."""
        _log.exception("%d requests failed%s", len(jobs), "; running them one by one" if len(jobs) > 1 else "")
        if len(jobs) == 1:
            jobs[0].future.set_exception(InternalError())
            return
        with self._changed:
            self._jobs.extendleft(replace(job, is_retry=True) for job in reversed(jobs))
