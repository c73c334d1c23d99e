"""An engine without processes, for tests of everything but engines."""

from collections import deque

from sct.bulk.driver import RunConfig
from sct.bulk.engine import Engine, Event
from sct.bulk.worker import Worker


class InlineEngine(Engine):
    """One worker in this process."""

    def __init__(self) -> None:
        self._worker, self._events = None, deque()

    def capacity(self):
        return 1

    def start_worker(self, config):
        self._worker = Worker(config)
        problem = self._worker.start()
        self._events.append(Event(worker=0, kind="unusable" if problem else "ready", reason=problem or ""))
        return 0

    def submit(self, worker, shard):
        self._events.append(Event(worker=worker, kind="result", result=self._worker.process(shard)))

    def wait(self, timeout):  # noqa: ARG002
        return [self._events.popleft()] if self._events else []

    def count_steps(self):
        return {}

    def kill_worker(self, worker):
        raise AssertionError(worker)

    def close(self):
        self._events.clear()


class InlineConfig(RunConfig):
    """Runs a job in this process."""

    def build(self) -> Engine:
        return InlineEngine()
