"""Worker processes of one server: forked, restarted when they die, and stopped together.

Workers are forked from a supervisor that has loaded the model with a single thread, so they share its memory and a new
one is ready at once. They accept connections from one inherited socket: those that wait in it survive the death of a
worker, unlike those of a socket of its own (SO_REUSEPORT).
"""

import gc
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from sct.errors import InputError
from sct.serving.shared_memory import SharedStore, WorkerBoard
from sct.serving.worker import Worker

_log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
_EARLY = 10.0
"""Seconds; a worker that lived no longer died early."""
_MAX_EARLY_DEATHS = 5
"""Early deaths in a row of every worker after which the supervisor gives up."""
_MAX_RESTART_DELAY = 30.0
STOP_TIMEOUT = 75.0
"""Seconds until workers that do not stop are killed; more than they give their requests."""


@dataclass(slots=True, eq=False)
class _Process:
    """The process of one worker, or the wait for the next one."""

    pid: int | None = None
    started: float = 0.0
    start_at: float = 0.0
    num_early_deaths: int = 0

    def is_failing(self, now: float) -> bool:
        """Whether it died early again and again, and has not lived longer since."""
        return self.num_early_deaths >= _MAX_EARLY_DEATHS and (self.pid is None or now - self.started < _EARLY)


class Supervisor:
    """Keeps a number of workers running until SIGTERM or SIGINT."""

    def __init__(
        self,
        listener: socket.socket,
        num_workers: int,
        run_worker: Callable[[Worker], int],
        *,
        on_ready: Callable[[], None],
        shared_image_bytes: int,
    ) -> None:
        """``run_worker`` serves in a new process and returns its exit code; ``on_ready`` is called once, when all are.

        The supervisor may have no threads when it runs, besides those of libraries that handle ``fork``.
        """
        self._listener, self._run_worker, self._on_ready = listener, run_worker, on_ready
        self._board = WorkerBoard(num_workers)
        self._images = SharedStore(shared_image_bytes) if shared_image_bytes else None
        self._processes = [_Process() for _ in range(num_workers)]
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._alive_reader, self._alive_writer = os.pipe()
        self._was_ready = self._was_announced = False
        self._stop_deadline: float | None = None
        self._exit_code = 0

    def run(self) -> int:
        """Run until all workers have ended; returns the exit code."""
        for end in (self._wake_reader, self._wake_writer):
            end.setblocking(False)
        handlers = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
        old_wakeup = signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        gc.collect()
        gc.freeze()  # or the collector would write to, and so copy, memory that workers share
        try:
            while self._stop_deadline is None or any(process.pid for process in self._processes):
                self._start_workers()
                self._wait()
                self._reap()
                self._announce()
            return self._exit_code
        finally:
            os.close(self._alive_writer)  # should anything have failed here, workers stop now
            os.close(self._alive_reader)
            signal.set_wakeup_fd(old_wakeup)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._wake_reader.close()
            self._wake_writer.close()

    def _start_workers(self) -> None:
        """Fork the workers that are due; at first one alone, so that an error of all is reported once."""
        if self._stop_deadline is not None:
            return
        for index, process in enumerate(self._processes):
            if process.pid is None and process.start_at <= time.monotonic() and (index == 0 or self._was_ready):
                # No signal may reach the handlers of the supervisor in the new process.
                mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
                pid = os.fork()
                if pid == 0:
                    self._run_child(index, mask)
                process.pid, process.started = pid, time.monotonic()
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _run_child(self, index: int, mask: set[int | signal.Signals]) -> NoReturn:
        code = 1
        try:
            os.setpgid(0, 0)  # Ctrl-C is for the supervisor, which passes it on
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            os.close(self._alive_writer)
            self._wake_reader.close()
            threading.Thread(target=self._stop_with_supervisor, name="sct supervisor", daemon=True).start()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            code = self._run_worker(Worker(index, self._board, self._images, self._wake_writer))
        except InputError as error:
            code = 2
            _log.error("sct: %s", error)
        except BaseException:  # nothing may return into the code of the supervisor
            _log.exception("worker %d failed", index)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _stop_with_supervisor(self) -> None:
        """Wait for the end of the supervisor, whatever ends it, and stop this worker."""
        os.read(self._alive_reader, 1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(STOP_TIMEOUT)
        os._exit(1)

    def _wait(self) -> None:
        """Wait for a signal, a worker that is ready or the next time to act."""
        now = time.monotonic()
        times = [process.start_at for process in self._processes if process.pid is None and process.start_at > now]
        if self._stop_deadline is not None:
            times = [self._stop_deadline]
        select.select([self._wake_reader], [], [], max(0.0, min(times) - now) if times else None)
        try:
            received = self._wake_reader.recv(4096)
        except BlockingIOError:
            received = b""
        for number in received:
            if number in (signal.SIGTERM, signal.SIGINT):
                self._stop(number)
        if self._stop_deadline is not None and time.monotonic() >= self._stop_deadline:
            _log.error("workers did not stop within %g seconds: killing them", STOP_TIMEOUT)
            self._exit_code = 1
            self._stop_deadline = time.monotonic() + STOP_TIMEOUT
            self._send(signal.SIGKILL)

    def _stop(self, number: int) -> None:
        """Let the workers finish their requests; a second Ctrl-C ends them."""
        if self._stop_deadline is None:
            self._stop_deadline = time.monotonic() + STOP_TIMEOUT
            self._listener.close()
            self._send(signal.SIGTERM)
        elif number == signal.SIGINT:
            self._send(signal.SIGINT)

    def _send(self, number: int) -> None:
        for process in self._processes:
            if process.pid is not None:
                os.kill(process.pid, number)  # it has not been waited for, so it cannot be another process

    def _reap(self) -> None:
        for index, process in enumerate(self._processes):
            if process.pid is None:
                continue
            pid, status = os.waitpid(process.pid, os.WNOHANG)
            if pid:
                self._handle_end(index, process, os.waitstatus_to_exitcode(status))

    def _handle_end(self, index: int, process: _Process, code: int) -> None:
        """Note the end of a worker; unless all shall stop, plan the start of another one."""
        pid, process.pid = process.pid, None
        self._was_ready |= self._board.is_ready(index)
        self._board.clear(index)
        if self._stop_deadline is not None:
            is_stopped = code in (0, -signal.SIGTERM)  # a signal kills one that has not started to serve
            self._exit_code = self._exit_code or (0 if is_stopped else 1)
            return
        if not self._was_ready:  # the first one, which said why
            self._exit_code = code if code > 0 else 1
            if code < 0:
                _log.error("the first worker (process %d) %s before it was ready", pid, _describe(code))
            self._stop(signal.SIGTERM)
            return
        now = time.monotonic()
        process.num_early_deaths = process.num_early_deaths + 1 if now - process.started < _EARLY else 0
        if all(each.is_failing(now) for each in self._processes):
            _log.error("every worker died %d times, soon after its start: giving up", _MAX_EARLY_DEATHS)
            self._exit_code = 1
            self._stop(signal.SIGTERM)
            return
        delay = 0.0
        if process.num_early_deaths > 1:
            delay = min(2.0 ** (process.num_early_deaths - 2), _MAX_RESTART_DELAY)
        process.start_at = now + delay
        when = f"in {delay:g} seconds" if delay else "now"
        _log.warning("worker %d (process %d) %s: another one starts %s", index, pid, _describe(code), when)

    def _announce(self) -> None:
        self._was_ready |= self._board.num_ready > 0
        if not self._was_announced and self._board.num_ready == self._board.num_workers:
            self._was_announced = True
            self._on_ready()


def _describe(code: int) -> str:
    """Describe how a process ended.

    >>> _describe(1), _describe(-9), _describe(-99)
    ('ended with exit code 1', 'was killed by SIGKILL', 'was killed by signal 99')
    """
    if code >= 0:
        return f"ended with exit code {code}"
    known = {number.value: number.name for number in signal.Signals}
    return f"was killed by {known.get(-code, f'signal {-code}')}"
