"""Trains what is missing, some chains of runs at a time, each run a process of its own.

A run that fails takes down what would have started from it, and nothing else.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from sct.atomic import written_whole
from sct.errors import InputError
from sct.reproduction.plan import PlannedRun
from sct.reproduction.runs import LOG, REPORT, Workplace, saved_report

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


class Trainer:
    """Trains chains of runs, ``jobs`` at a time."""

    def __init__(self, place: Workplace, jobs: int, dataset: str) -> None:
        """Begin nothing yet; ``dataset`` is the checksum of the dataset, which is put down with every run."""
        self._place, self._jobs, self._dataset = place, jobs, dataset
        self._outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._guard = threading.Lock()
        self._is_stopping = False

    def train(self, chains: Sequence[Sequence[PlannedRun]]) -> Generator[Outcome, None, None]:
        """Train every run of every chain and tell of each as soon as it has ended.

        Whoever closes the iterator early stops the runs that are under way.
        """
        with _terminated_like_interrupted(), ThreadPoolExecutor(self._jobs) as pool:
            futures = [pool.submit(self._train_chain, chain) for chain in chains]
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

    def _train_chain(self, chain: Sequence[PlannedRun]) -> None:
        failed: set[str] = set()
        for run in chain:
            if run.start is not None and run.start.name in failed:
                fault = f"it would have started from {run.start.name}, which failed"
            else:
                fault = self._fault_of(run)
            if fault:
                failed.add(run.name)
            self._outcomes.put(Outcome(run, fault))

    def _fault_of(self, run: PlannedRun) -> str:
        """Train a run and say what went wrong, if anything did."""
        try:
            return self._train(run)
        except (InputError, OSError) as error:  # a damaged checkpoint, a full disk, a folder that may not be written to
            return str(error)

    def _train(self, run: PlannedRun) -> str:
        place, folder = self._place, self._place.folder(run)
        resume = [*place.time_left(run), "--resume"] if place.is_begun(run) else []
        words = ["train", str(place.recipe(run)), *place.planned_settings(run), *resume, "--json"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / REPORT).unlink(missing_ok=True)
        with (folder / LOG).open("ab") as log:
            process = self._begin([sys.executable, "-m", "sct", *words], log.fileno())
            if process is None:
                return "it was not begun, as all were asked to stop"
            said, _ = process.communicate()
            with self._guard:
                self._processes.discard(process)
        if process.returncode != 0:
            return f"sct train ended with {process.returncode}: {self._last_lines(run)}"
        report = json.loads(said.splitlines()[-1])
        kept = saved_report(report, place.time_allowed(run), self._dataset)
        if kept is None:
            return f"{report['reason']}: call sct reproduce again to go on"
        if not place.best(run).is_dir():
            return f"it left no bundle ({report['reason']}): let it go on until its first validation"
        with written_whole(folder / REPORT) as file:
            file.write(kept)
        return ""

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

    def _last_lines(self, run: PlannedRun) -> str:
        text = (self._place.folder(run) / LOG).read_text(encoding="utf-8", errors="replace")
        return " / ".join(line.strip() for line in text.splitlines()[-_LINES_SHOWN:])

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

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  the signature is Python's
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
