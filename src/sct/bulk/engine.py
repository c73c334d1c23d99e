"""Hand shards to workers until all are done: replaces workers that die, and gives a shard up after some attempts.

What starts and watches the workers is an ``Engine``: processes of this computer, or actors of a Ray cluster.
"""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Literal

from sct.bulk.shards import Shard
from sct.bulk.worker import ShardResult
from sct.errors import InputError

MAX_FAILED_STARTS = 5
"""Workers in a row that may die before they are ready: then no worker can start."""
_WAIT_SECONDS = 1.0


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
    def start_worker(self) -> int:
        """Begin to start a worker and return its number; an event says when it is ready."""

    @abstractmethod
    def submit(self, worker: int, shard: Shard) -> None:
        """Hand a shard to a worker that has none."""

    @abstractmethod
    def wait(self, timeout: float) -> list[Event]:
        """Wait for events, at most ``timeout`` seconds."""

    @abstractmethod
    def close(self) -> None:
        """End all workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A shard that is done or given up."""

    shard: Shard
    result: ShardResult
    num_attempts: int = 1


def run_shards(engine: Engine, shards: Iterable[Shard], *, max_attempts: int) -> Generator[Outcome, None, None]:
    """Process shards with the workers of an engine; yields each as it is done or given up.

    A shard whose worker dies, or whose disk or network fails, is tried again after the others, at most
    ``max_attempts`` times in all. Closing the iterator ends the workers.
    """
    pending, attempts = deque(shards), Counter[str]()
    starting, idle, busy = set[int](), list[int](), dict[int, Shard]()
    failed_starts = 0
    try:
        while pending or busy:
            target = min(max(engine.capacity(), 1), len(pending) + len(busy))
            while len(starting) + len(idle) + len(busy) < target:
                starting.add(engine.start_worker())
            while idle and pending:
                worker = idle.pop()
                busy[worker] = pending.popleft()
                engine.submit(worker, busy[worker])
            for event in engine.wait(_WAIT_SECONDS):
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
