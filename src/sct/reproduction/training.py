"""Trains what is missing, some chains of runs at a time, each run a process of its own.

A run that fails takes down what would have started from it, and nothing else. One that finds no memory beside the
others is left to them, and from then on there is one fewer at a time.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from sct.errors import InputError
from sct.reproduction.memory import tells_of_no_memory
from sct.reproduction.plan import PlannedRun
from sct.reproduction.request import Say
from sct.reproduction.runs import LOG, REPORT, Workplace, saved_report
from sct.storage.atomic import atomic_write

_LINES_SHOWN = 5
_LOOK_EVERY_SECONDS = 1.0
_PATIENCE_SECONDS = 60.0
"""What a run that is asked to stop has to save itself."""
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""A terminal that is closed sends the second; Windows has none such."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a run."""

    run: PlannedRun
    fault: str = ""
    """Why it failed; empty if it did not."""


@dataclass(frozen=True, slots=True)
class _Fault:
    """Why a try failed."""

    text: str
    is_of_memory: bool = False


class Trainer:
    """Trains chains of runs, ``jobs`` at a time."""

    def __init__(self, place: Workplace, jobs: int, dataset: str, say: Say) -> None:
        """Begin nothing yet; ``dataset`` is the checksum of the dataset, which is put down with every run."""
        self._place, self._jobs, self._dataset, self._say = place, jobs, dataset, say
        self._outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._guard = threading.Lock()
        self._is_stopping = False
        self._waiting: deque[Sequence[PlannedRun]] = deque()
        self._num_workers = 0

    def train(self, chains: Sequence[Sequence[PlannedRun]]) -> Generator[Outcome, None, None]:
        """Train every run of every chain and tell of each as soon as it has ended.

        Whoever closes the iterator early stops the runs that are under way.
        """
        self._waiting.extend(chains)
        self._num_workers = min(self._jobs, len(chains))
        with _terminated_like_interrupted(), ThreadPoolExecutor(self._jobs) as pool:
            futures = [pool.submit(self._work) for _ in range(self._num_workers)]
            try:
                for _ in range(sum(map(len, chains))):
                    yield self._next_outcome(futures)
            finally:
                self._stop()

    def _next_outcome(self, futures: Sequence[Future[None]]) -> Outcome:
        while True:
            try:
                return self._outcomes.get(timeout=_LOOK_EVERY_SECONDS)
            except queue.Empty:
                for future in futures:
                    if future.done():
                        future.result()  # a fault of ours, which nobody would hear of otherwise

    def _work(self) -> None:
        """Train chains until none is waiting, or until one finds no memory beside those of others."""
        while chain := self._next_chain():
            if rest := self._train_chain(chain):
                self._say(f"{rest[0].name} finds no memory beside the others, and is left to them")
                return

    def _next_chain(self) -> Sequence[PlannedRun]:
        with self._guard:
            if self._waiting:
                return self._waiting.popleft()
            self._num_workers -= 1
            return ()

    def _train_chain(self, chain: Sequence[PlannedRun]) -> Sequence[PlannedRun]:
        """Train one run after another, and give those that are left to others for want of memory."""
        failed: set[str] = set()
        for number, run in enumerate(chain):
            if run.start is not None and run.start.name in failed:
                fault: _Fault | None = _Fault(f"it would have started from {run.start.name}, which failed")
            else:
                has_company = self._num_workers > 1
                fault = self._fault_of(run)
                if fault is not None and fault.is_of_memory and has_company:
                    if self._leave(chain[number:]):
                        return chain[number:]
                    fault = self._fault_of(run)  # the others have ended meanwhile
            if fault is not None:
                failed.add(run.name)
            self._outcomes.put(Outcome(run, "" if fault is None else fault.text))
        return ()

    def _leave(self, chain: Sequence[PlannedRun]) -> bool:
        """Leave runs to the others, if there are any."""
        with self._guard:
            if self._num_workers == 1:
                return False
            self._num_workers -= 1
            self._waiting.append(chain)
            return True

    def _fault_of(self, run: PlannedRun) -> _Fault | None:
        """Train a run and say what went wrong, if anything did."""
        try:
            return self._train(run)
        except (InputError, OSError) as error:  # a damaged checkpoint, a full disk, a folder that may not be written to
            return _Fault(str(error))

    def _train(self, run: PlannedRun) -> _Fault | None:
        place, folder = self._place, self._place.folder(run)
        resume = [*place.time_left(run), "--resume"] if place.is_begun(run) else []
        words = ["train", str(place.recipe(run)), *place.planned_settings(run), *resume, "--json"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / REPORT).unlink(missing_ok=True)
        with (folder / LOG).open("ab") as log:
            log_size = log.tell()
            process = self._begin([sys.executable, "-m", "sct", *words], log.fileno())
            if process is None:
                return _Fault("it was not begun, as all were asked to stop")
            said, _ = process.communicate()
            with self._guard:
                self._processes.discard(process)
        if process.returncode != 0:
            logged = (folder / LOG).read_bytes()[log_size:].decode("utf-8", errors="replace")
            last_lines = " / ".join(line.strip() for line in logged.splitlines()[-_LINES_SHOWN:])
            return _Fault(f"sct train ended with {process.returncode}: {last_lines}", tells_of_no_memory(logged))
        report = json.loads(said.splitlines()[-1])
        kept = saved_report(report, place.time_allowed(run), self._dataset)
        if kept is None:
            return _Fault(f"{report['reason']}: call sct reproduce again to go on")
        if not place.best(run).is_dir():
            return _Fault(f"it left no bundle ({report['reason']}): let it go on until its first validation")
        with atomic_write(folder / REPORT) as file:
            file.write(kept)
        return None

    def _begin(self, command: Sequence[str], log: int) -> subprocess.Popen[bytes] | None:
        threads = max(1, (os.cpu_count() or 1) // self._jobs)
        environment = {"OMP_NUM_THREADS": str(threads), **os.environ}
        with self._guard:
            if self._is_stopping:
                return None
            # Not in our session: Ctrl-C on a terminal would ask them a first time, and we a second, which is an order.
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env=environment, start_new_session=True
            )
            self._processes.add(process)
            return process

    def _stop(self) -> None:
        """Ask the runs that are under way to save themselves; those that do not in time are killed."""
        with self._guard:
            self._is_stopping = True
            running = list(self._processes)
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM and SIGHUP do what Ctrl-C does in the block: runs must not outlive who began them.

    One that is ignored stays so, as whoever said nohup wants it.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    caught = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in caught:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in caught.items():
            # None: it was set by something else than Python, which alone can put it back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
