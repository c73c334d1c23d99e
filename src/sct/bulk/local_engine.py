"""Workers as processes of this computer; they end with the process that started them."""

import signal
from collections.abc import Mapping
from ctypes import c_uint64
from dataclasses import replace
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import RawValue
from typing import NamedTuple

from sct.bulk.engine import Engine, Event
from sct.bulk.shards import Shard
from sct.bulk.steps import StepCounter
from sct.bulk.worker import Worker, WorkerConfig
from sct.storage.cpus import count_cores
from sct.storage.processes import deferred_interrupts, exit_with_parent

_STOP_SECONDS = 5.0


class _Process(NamedTuple):
    process: BaseProcess
    pipe: "Connection[Shard, Event]"
    steps: c_uint64
    """Memory shared with the process, which counts its steps there."""


class LocalEngine(Engine):
    """Processes that are started anew, not forked, so that they share no state."""

    def __init__(self, *, threads: int, num_workers: int | None = None) -> None:
        """``num_workers``: None for as many as the cores allow, with ``threads`` each."""
        self._num_workers = num_workers or max(1, count_cores() // threads)
        self._workers: dict[int, _Process] = {}
        self._next = 0

    def capacity(self) -> int:
        """Number of processes."""
        return self._num_workers

    def start_worker(self, config: WorkerConfig) -> int:
        """Start a process."""
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        steps = RawValue(c_uint64)
        process = context.Process(target=_run_worker, args=(config, theirs, steps), daemon=True)
        with deferred_interrupts():
            process.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        self._workers[self._next] = _Process(process, ours, steps)
        self._next += 1
        return self._next - 1

    def submit(self, worker: int, shard: Shard) -> None:
        """Send a shard; a process that has died meanwhile is reported by ``wait``."""
        try:
            self._workers[worker].pipe.send(shard)
        except OSError:
            self._workers[worker].process.kill()

    def wait(self, timeout: float) -> list[Event]:
        """Wait for messages and the end of processes."""
        ready = set(connection.wait([worker.pipe for worker in self._workers.values()], timeout))
        events = []
        for number, worker in list(self._workers.items()):
            if worker.pipe in ready:
                events.append(self._receive(number, worker))
        return events

    def _receive(self, number: int, worker: _Process) -> Event:
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(_STOP_SECONDS)
            worker.pipe.close()
            del self._workers[number]
            return Event(worker=number, kind="lost", reason=_explain_exit(worker.process.exitcode))
        return replace(message, worker=number)

    def count_steps(self) -> Mapping[int, int]:
        """Read what the processes have counted."""
        return {number: worker.steps.value for number, worker in self._workers.items()}

    def kill_worker(self, worker: int) -> str:
        """Kill a process, also one that is stopped."""
        process, pipe, _ = self._workers.pop(worker)
        process.kill()
        process.join(_STOP_SECONDS)
        pipe.close()
        return f"process {process.pid}"

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers.values():
            worker.process.terminate()
        for worker in self._workers.values():
            worker.process.join(_STOP_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()
        self._workers.clear()


def _run_worker(config: WorkerConfig, pipe: "Connection[Event, Shard]", steps: c_uint64) -> None:
    """Load the models and process shards until the pipe or the parent process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    exit_with_parent()
    worker = Worker(config, StepCounter(steps))
    problem = worker.start()
    pipe.send(Event(worker=0, kind="ready") if problem is None else Event(worker=0, kind="unusable", reason=problem))
    while True:
        try:
            shard = pipe.recv()
        except EOFError:
            return
        pipe.send(Event(worker=0, kind="result", result=worker.process(shard)))


def _explain_exit(code: int | None) -> str:
    """Exit code of a process in words.

    >>> _explain_exit(-9), _explain_exit(1)
    ('killed by SIGKILL, possibly out of memory', 'exit code 1')
    """
    if code is None or code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"killed by {name}" + (", possibly out of memory" if -code == signal.SIGKILL else "")
