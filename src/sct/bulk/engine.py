"""Hand shards to workers until all are done: replaces workers that die, and gives a shard up after some attempts.

What starts and watches the workers is an ``Engine``: processes of this computer, or actors of a Ray cluster.
"""

import logging
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Literal

from sct.bulk.shards import Shard
from sct.bulk.status import format_seconds
from sct.bulk.worker import ShardResult, WorkerConfig
from sct.errors import InputError

logger = logging.getLogger(__name__)

MAX_FAILED_STARTS = 5
"""Workers in a row that may die before they are ready: then no worker can start."""
MIN_START_SECONDS = 600.0
"""Time that a worker has to load its models, at least: it makes no steps meanwhile."""
_WAIT_SECONDS = 1.0
_MAX_WATCH_SECONDS = 10.0
"""Time between two looks at the steps of workers, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """News of a worker."""

    worker: int
    kind: Literal["ready", "unusable", "result", "lost"]
    """``unusable``: it cannot load its models; ``lost``: it has died."""
    result: ShardResult | None = None
    reason: str = ""


class Engine(ABC):
    """Starts workers and reports what becomes of them."""

    @abstractmethod
    def capacity(self) -> int:
        """Number of workers that can run now."""

    @abstractmethod
    def start_worker(self, config: WorkerConfig) -> int:
        """Begin to start a worker and return its number; an event says when it is ready."""

    @abstractmethod
    def submit(self, worker: int, shard: Shard) -> None:
        """Hand a shard to a worker that has none."""

    @abstractmethod
    def wait(self, timeout: float) -> list[Event]:
        """Wait for events, at most ``timeout`` seconds."""

    @abstractmethod
    def count_steps(self) -> Mapping[int, int]:
        """Steps of each worker so far; a worker that waits for a place in a cluster is left out."""

    @abstractmethod
    def kill_worker(self, worker: int) -> str:
        """Kill a worker that hangs, and return what it was, for messages; no event follows."""

    @abstractmethod
    def close(self) -> None:
        """End all workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A shard that is done or given up."""

    shard: Shard
    result: ShardResult
    num_attempts: int = 1


def run_shards(
    engine: Engine,
    config: WorkerConfig,
    shards: Iterable[Shard],
    *,
    max_attempts: int,
    stall_seconds: float | None = None,
) -> Generator[Outcome, None, None]:
    """Process shards with the workers of an engine; yields each as it is done or given up.

    A shard whose worker dies, or whose disk or network fails, is tried again after the others, at most
    ``max_attempts`` times in all. A worker that makes no step for ``stall_seconds`` is killed and counts as one that
    died; None: it may take any time. Closing the iterator ends the workers.
    """
    watch = _StallWatch(engine, stall_seconds)
    pending, attempts = deque(shards), Counter[str]()
    starting, idle, busy = set[int](), list[int](), dict[int, Shard]()
    failed_starts = 0
    try:
        while pending or busy:
            target = min(max(engine.capacity(), 1), len(pending) + len(busy))
            while len(starting) + len(idle) + len(busy) < target:
                starting.add(engine.start_worker(config))
            while idle and pending:
                worker = idle.pop()
                busy[worker] = pending.popleft()
                engine.submit(worker, busy[worker])
            events = engine.wait(_WAIT_SECONDS)
            heard = {event.worker for event in events}
            events += watch.kill_stalled(starting - heard, {n: shard for n, shard in busy.items() if n not in heard})
            for event in events:
                if event.kind == "unusable":
                    raise InputError(event.reason)
                if event.kind == "ready":
                    starting.discard(event.worker)
                    idle.append(event.worker)
                    failed_starts = 0
                    continue
                if event.kind == "lost" and event.worker not in busy:
                    failed_starts += event.worker in starting
                    starting.discard(event.worker)
                    idle[:] = [worker for worker in idle if worker != event.worker]
                    if failed_starts >= MAX_FAILED_STARTS:
                        raise InputError(
                            f"{failed_starts} workers in a row died while they loaded their models ({event.reason}): "
                            "use fewer --workers, or computers with more memory"
                        )
                    continue
                shard = busy.pop(event.worker)
                attempts[shard.name] += 1
                if event.kind == "result":
                    idle.append(event.worker)
                result = event.result or ShardResult(kind="retry", reason=f"its worker died ({event.reason})")
                if result.kind == "retry" and attempts[shard.name] < max_attempts:
                    pending.append(shard)
                    continue
                if result.kind == "retry":
                    times = f"{attempts[shard.name]} attempts failed, the last one because "
                    result = ShardResult(kind="failed", reason=times + result.reason)
                yield Outcome(shard=shard, result=result, num_attempts=attempts[shard.name])
    finally:
        engine.close()


class _StallWatch:
    """Kills workers that make no steps."""

    def __init__(self, engine: Engine, stall_seconds: float | None) -> None:
        self._engine, self._limit = engine, stall_seconds
        self._interval = 0.0 if stall_seconds is None else min(_MAX_WATCH_SECONDS, stall_seconds / 4)
        self._looked = monotonic()
        self._steps: Mapping[int, int] = {}
        self._stalled: dict[int, float] = {}
        """Seconds since each worker made a step."""

    def kill_stalled(self, starting: Iterable[int], busy: Mapping[int, Shard]) -> list[Event]:
        """Kill the workers whose steps have not changed for too long; returns their loss.

        A pause of this process, as by Ctrl-Z, which stops workers as well, counts as one interval.
        """
        elapsed = monotonic() - self._looked
        if self._limit is None or elapsed < self._interval:
            return []
        self._looked += elapsed
        elapsed = min(elapsed, self._interval + 2 * _WAIT_SECONDS)
        limits = {**dict.fromkeys(starting, max(self._limit, MIN_START_SECONDS)), **dict.fromkeys(busy, self._limit)}
        before, self._steps = self._steps, self._engine.count_steps()
        self._stalled = {
            worker: self._stalled.get(worker, 0.0) + elapsed if before.get(worker) == self._steps[worker] else 0.0
            for worker in limits
            if worker in self._steps
        }
        events = []
        for worker in [worker for worker, seconds in self._stalled.items() if seconds >= limits[worker]]:
            time, name = format_seconds(limits[worker]), self._engine.kill_worker(worker)
            work = f"on shard {busy[worker].name}" if worker in busy else "in loading its models"
            logger.warning("worker %d (%s) made no progress %s for %s: killed", worker, name, work, time)
            events.append(Event(worker=worker, kind="lost", reason=f"killed after {time} without progress"))
        return events
