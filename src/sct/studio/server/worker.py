"""One thread for the one model: it answers together what waits together."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sct.errors import InputError
from sct.studio.server.counters import Counters

_log = logging.getLogger(__name__)

Asked = TypeVar("Asked")
Found = TypeVar("Found")


class Full(Exception):  # noqa: N818 - it says how things stand
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

    While the model works on some, others gather; the first that finds it idle waits a moment for company.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Asked]], Sequence[Found | InputError]],
        counters: Counters,
        *,
        most_waiting: int,
        batch: int,
        patience: float,
    ) -> None:
        """Start the thread; ``stop`` ends it."""
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
            return [self._jobs.popleft() for _ in range(min(self._batch, len(self._jobs)))]

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
