"""Side work in threads, no more of it than may wait.

One thread for the one model: it answers together what waits together.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, ParamSpec, TypeVar

from sct.errors import InputError
from sct.serving.counters import Counters

Taken = ParamSpec("Taken")
Given = TypeVar("Given")


class BoundedExecutor:
    """Runs functions in a few threads; what nobody waits for any more, and has not begun, is never run."""

    def __init__(self, name: str, *, threads: int, most: int) -> None:
        """``most``: functions that run or wait."""
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._most, self._taken = most, 0
        self._lock = threading.Lock()

    async def run(self, function: Callable[Taken, Given], *args: Taken.args, **kwargs: Taken.kwargs) -> Given:
        """Run a function and wait for what it gives."""
        with self._lock:
            if self._taken >= self._most:
                raise Full
            self._taken += 1
        future = self._threads.submit(function, *args, **kwargs)
        future.add_done_callback(self._leave)
        return await asyncio.wrap_future(future)

    def _leave(self, _: "Future[Given]") -> None:
        with self._lock:
            self._taken -= 1

    def stop(self) -> None:
        """Finish what runs and end the threads."""
        self._threads.shutdown(cancel_futures=True)


_log = logging.getLogger(__name__)

Asked = TypeVar("Asked")
Found = TypeVar("Found")


class Full(Exception):  # noqa: N818
    """As many wait as may."""


class Stopped(Exception):  # noqa: N818
    """Nothing more is taken on."""


class Fault(Exception):  # noqa: N818
    """The work failed for a reason that is none of who asked; the log tells more."""


@dataclass(frozen=True, slots=True, eq=False)
class _Job(Generic[Asked, Found]):
    task: Asked
    deadline: float
    """By the clock of ``time.monotonic``; what is later is not begun."""
    future: "Future[Found]" = field(default_factory=Future)


class Worker(Generic[Asked, Found]):
    """Collects tasks and hands them to ``answer``, some at a time, in a thread of its own.

    While the model works on some, others gather; the first that finds it idle waits a moment for company. Tasks that
    need something heavy done first let light ones pass: only a few such things are done at a time.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Asked]], Sequence[Found | InputError]],
        counters: Counters,
        *,
        most_waiting: int,
        batch: int,
        patience: float,
        heavy_part: Callable[[Asked], str | None] = lambda _: None,
        most_heavy: int = 1,
    ) -> None:
        """Start the thread; ``stop`` ends it. ``heavy_part`` names what is to be done first; tasks may share it."""
        self._heavy_part, self._most_heavy = heavy_part, most_heavy
        self._answer, self._counters = answer, counters
        self._most, self._batch, self._patience = most_waiting, batch, patience
        self._jobs: deque[_Job[Asked, Found]] = deque()
        self._changed = threading.Condition()
        self.is_stopping = False
        self._thread = threading.Thread(target=self._run, name="sct model", daemon=True)
        self._thread.start()

    def submit(self, task: Asked, deadline: float) -> "Future[Found]":
        """Let a task wait for its turn; cancelling the future before takes it away again."""
        job: _Job[Asked, Found] = _Job(task, deadline)
        with self._changed:
            if self.is_stopping:
                raise Stopped
            if len(self._jobs) >= self._most:
                raise Full
            self._jobs.append(job)
            self._changed.notify_all()
        return job.future

    @property
    def num_waiting(self) -> int:
        """Tasks whose turn has not come."""
        return len(self._jobs)

    @property
    def num_heavy(self) -> int:
        """Different heavy things that are to be done for them."""
        with self._changed:
            return len({self._heavy_part(job.task) for job in self._jobs} - {None})

    def stop(self) -> None:
        """Take nothing more, finish what waits, and end the thread."""
        with self._changed:
            self.is_stopping = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while jobs := self._next_jobs():
            self._work(jobs)

    def _next_jobs(self) -> list[_Job[Asked, Found]]:
        """Wait for work; nothing at all means that the thread is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self.is_stopping)
            if not self.is_stopping and self._patience:
                self._changed.wait_for(lambda: len(self._jobs) >= self._batch or self.is_stopping, self._patience)
            return self._take()

    def _take(self) -> list[_Job[Asked, Found]]:
        """Those whose turn it is; the rest stay in their order."""
        taken: list[_Job[Asked, Found]] = []
        left: deque[_Job[Asked, Found]] = deque()
        heavy: set[str] = set()
        for job in self._jobs:
            part = self._heavy_part(job.task)
            is_more = part is not None and part not in heavy
            if len(taken) == self._batch or (is_more and len(heavy) == self._most_heavy):
                left.append(job)
                continue
            taken.append(job)
            if part is not None:
                heavy.add(part)
        self._jobs = left
        return taken

    def _work(self, jobs: Sequence[_Job[Asked, Found]]) -> None:
        now = time.monotonic()
        due: list[_Job[Asked, Found]] = []
        for job in jobs:
            if job.deadline < now:
                job.future.cancel()
            if job.future.set_running_or_notify_cancel():
                due.append(job)
            else:
                self._counters.cancelled()
        if not due:
            return
        try:
            answers = self._answer([job.task for job in due])
        except Exception:  # the thread must outlive any fault, and whoever waits must be told of it
            _log.exception("%d requests failed", len(due))
            for job in due:
                job.future.set_exception(Fault())
            return
        finally:
            self._counters.batch(len(due), time.monotonic() - now)
        for job, answer in zip(due, answers, strict=True):
            if isinstance(answer, InputError):
                job.future.set_exception(answer)
            else:
                job.future.set_result(answer)
