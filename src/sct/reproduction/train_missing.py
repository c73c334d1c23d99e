"""Train missing runs in subprocesses, several chains of stages at a time.

Outcomes are yielded as runs end, so that the caller can caption with finished runs while others train. A failed run
fails the later stages of its chain and nothing else. A run that is out of GPU memory next to others is put back into
the queue, and from then on one run fewer is trained at a time.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from sct.errors import InputError
from sct.reproduction.plan import Log, PlannedRun
from sct.reproduction.records import REPORT
from sct.reproduction.runs import LOG, RunPaths
from sct.storage.atomic import atomic_write
from sct.storage.cpus import count_cores
from sct.training.run_dir import RunDir

_LOG_LINES_SHOWN = 5
_POLL_SECONDS = 1.0
_SHUTDOWN_SECONDS = 60.0
"""Time for a run to save a checkpoint before it is killed."""
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""SIGHUP is sent when the terminal closes; Windows has neither."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a training run."""

    run: PlannedRun
    error: str = ""
    """Why it failed; empty if it succeeded."""


@contextmanager
def train_missing(
    paths: RunPaths, runs: Sequence[PlannedRun], *, jobs: int, dataset_sha256: str, log: Log
) -> Iterator[Iterator[Outcome]]:
    """Train the given runs and those they start from, unless they are finished; gives an iterator over the outcomes.

    Training starts at once. Leaving the context early stops the runs that are still training; they can be resumed.
    """
    chains = paths.missing_chains(runs)
    if not chains:
        yield iter(())
        return
    num_runs = sum(map(len, chains))
    log(f"training {num_runs} runs, {jobs} at a time; logs: {paths.folder}/RUN/{LOG}")
    scheduler = _Scheduler(paths, chains, jobs, dataset_sha256, log)
    with _signals_as_interrupt(), ThreadPoolExecutor(jobs) as pool:
        try:
            workers = [pool.submit(scheduler.work) for _ in range(scheduler.num_workers)]
            yield (scheduler.next_outcome(workers) for _ in range(num_runs))
        finally:
            scheduler.stop()


def job_environment(jobs: int) -> dict[str, str]:
    """Environment of each of several jobs at once, which share the CPU threads of this process."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    threads = (int(given) if given.isdecimal() else count_cores()) // jobs
    return {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(max(1, threads)))}


class _OutOfMemoryError(InputError):
    """A run was out of GPU memory."""


class _Scheduler:
    """A queue of chains of runs, and worker threads that each train one run at a time."""

    def __init__(
        self, paths: RunPaths, chains: Sequence[Sequence[PlannedRun]], jobs: int, dataset_sha256: str, log: Log
    ) -> None:
        self.num_workers = min(jobs, len(chains))
        self._paths, self._jobs, self._dataset_sha256, self._log = paths, jobs, dataset_sha256, log
        self._queue = deque(chains)
        self._outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._is_stopping = False

    def next_outcome(self, workers: Sequence[Future[None]]) -> Outcome:
        """Wait for the next run to end."""
        while True:
            try:
                return self._outcomes.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                for worker in workers:
                    if worker.done():
                        worker.result()  # re-raise an unexpected error of a worker thread

    def work(self) -> None:
        """Train chains until the queue is empty, or until a run is out of memory next to others."""
        while chain := self._next_chain():
            if rest := self._train_chain(chain):
                self._log(f"{rest[0].name} is out of GPU memory next to other runs: queued again")
                return

    def stop(self) -> None:
        """Ask running processes to save a checkpoint and exit; kill those that do not in time."""
        with self._lock:
            self._is_stopping = True
            running = list(self._processes)
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(_SHUTDOWN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()

    def _next_chain(self) -> Sequence[PlannedRun]:
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            self.num_workers -= 1
            return ()

    def _train_chain(self, chain: Sequence[PlannedRun]) -> Sequence[PlannedRun]:
        """Train one stage after the other; returns the rest of the chain if it was put back into the queue."""
        failed: set[str] = set()
        for index, run in enumerate(chain):
            if run.start is not None and run.start.name in failed:
                error: InputError | OSError | None = InputError(f"it starts from {run.start.name}, which failed")
            else:
                has_company = self.num_workers > 1
                error = self._try(run)
                if isinstance(error, _OutOfMemoryError) and has_company:
                    if self._put_back(chain[index:]):
                        return chain[index:]
                    error = self._try(run)  # the other workers have ended meanwhile
            if error is not None:
                failed.add(run.name)
            self._outcomes.put(Outcome(run, "" if error is None else str(error)))
        return ()

    def _put_back(self, chain: Sequence[PlannedRun]) -> bool:
        """Leave a chain to the other workers, if there are any, and retire this one."""
        with self._lock:
            if self.num_workers == 1:
                return False
            self.num_workers -= 1
            self._queue.append(chain)
            return True

    def _try(self, run: PlannedRun) -> InputError | OSError | None:
        try:
            self._train(run)
        except (InputError, OSError) as error:  # also a damaged checkpoint, a full disk, missing permissions
            return error
        return None

    def _train(self, run: PlannedRun) -> None:
        """Train a run with ``sct train``, or resume it, and write its report."""
        path = self._paths.path(run)
        resume = [*self._paths.remaining_time(run), "--resume"] if RunDir.status(path).is_started else []
        command = ["train", str(self._paths.recipe_file(run)), *self._paths.overrides(run), *resume, "--json"]
        path.mkdir(parents=True, exist_ok=True)
        (path / REPORT).unlink(missing_ok=True)
        with (path / LOG).open("ab") as log:
            log_start = log.tell()
            process = self._start([sys.executable, "-m", "sct", *command], log.fileno())
            stdout, _ = process.communicate()
            with self._lock:
                self._processes.discard(process)
        if process.returncode != 0:
            text = (path / LOG).read_bytes()[log_start:].decode("utf-8", errors="replace")
            last_lines = " / ".join(line.strip() for line in text.splitlines()[-_LOG_LINES_SHOWN:])
            kind = _OutOfMemoryError if is_cuda_oom(text) else InputError
            raise kind(f"sct train exited with code {process.returncode}: {last_lines}")
        report = json.loads(stdout.splitlines()[-1])
        content = final_report(report, self._paths.time_budget(run), self._dataset_sha256)
        if content is None:
            raise InputError(f"{report['reason']}: call sct reproduce again to resume it")
        if not RunDir.status(path).has_best:
            raise InputError(f"it has no bundle yet ({report['reason']}): let it train until its first validation")
        with atomic_write(path / REPORT) as file:
            file.write(content)

    def _start(self, command: Sequence[str], log: int) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._is_stopping:
                raise InputError("it was not started: sct reproduce is stopping")
            # In a session of its own: otherwise Ctrl-C reaches it too, and our SIGTERM would be its second signal.
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env=job_environment(self._jobs), start_new_session=True
            )
            self._processes.add(process)
            return process


def final_report(report: Mapping[str, object], time_budget: float, dataset_sha256: str) -> bytes | None:
    """``reproduction.json`` of a run that reached its end or used up its time budget; None of an interrupted one."""
    seconds = report.get("seconds")
    is_used_up = isinstance(seconds, float) and 0 < time_budget <= seconds
    if not (report.get("finished") or is_used_up):
        return None
    return json.dumps({**report, "max_seconds": time_budget, "dataset": dataset_sha256}, indent=1).encode("utf-8")


def is_cuda_oom(text: str) -> bool:
    """Whether an error message says that the GPU is out of memory; libraries other than PyTorch have no error type.

    >>> is_cuda_oom("CUDA error: out of memory")
    True
    """
    return "out of memory" in text.lower()


@contextmanager
def _signals_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as Ctrl-C, so that subprocesses are stopped; ignored signals (nohup) stay ignored."""

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    handled = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in handled:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in handled.items():
            # None: a handler that was not installed from Python, which only its owner can restore.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
