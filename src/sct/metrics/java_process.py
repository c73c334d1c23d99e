"""Tools as servants: a process that answers lines with lines, started when first asked and kept for later questions.

Made for Java, which takes seconds to start; any program that speaks in lines will do.
"""

import atexit
import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence

from sct.metrics.interface import MetricUnavailable

DEFAULT_TIMEOUT = 300.0
"""Seconds without a line of answer after which a process counts as hung; most are for slow disks at its start."""

_LINES_OF_COMPLAINT = 12
_SECONDS_TO_END = 5.0


class LineProtocolProcess:
    """A program that answers lines with lines; it starts when first asked and lives until it is closed.

    Threads may share it: questions wait for each other. Where it dies it is started once more and asked again, so
    questions must not depend on earlier ones. It has to end at the end of its input, since a parent that is killed
    can tell it nothing else.
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self._command = list(command)
        self._lock = threading.Lock()
        self._life: _Life | None = None

    @property
    def process_id(self) -> int | None:
        """The number of the process that runs now, if one does."""
        life = self._life
        return life.process.pid if life else None

    def ask(self, lines: Sequence[str], num_answers: int, *, timeout: float = DEFAULT_TIMEOUT) -> list[str]:
        """Write all the lines and read that many lines of answer, both at once, so that neither side waits forever.

        ``timeout`` is for each answer, in seconds since the one before.
        """
        with self._lock:
            try:
                return self._ask(lines, num_answers, timeout)
            except _DiedError:
                pass
            try:
                return self._ask(lines, num_answers, timeout)
            except _DiedError as error:
                raise MetricUnavailable(
                    f"{self.name} died twice while it was asked: {error}; are there captions of hundreds of words?"
                ) from None

    def close(self) -> None:
        """End the process, if one runs; the next question starts another."""
        with self._lock:
            life, self._life = self._life, None
            if life is not None:
                life.end_gently()

    def _ask(self, lines: Sequence[str], num_answers: int, timeout: float) -> list[str]:
        if self._life is not None and not self._life.is_waiting():
            # It died since, or said more than it was asked, so that its next lines would answer nothing.
            self._life.end()
            self._life = None
        if self._life is None:
            self._life = _Life(_start(self.name, self._command))
        life = self._life
        try:
            life.start_writing(lines)
            return [self._answer(life, timeout) for _ in range(num_answers)]
        except BaseException:
            # Whatever interrupts, answers to these questions must not be taken for answers to the next ones.
            self._life = None
            life.end()
            raise

    def _answer(self, life: "_Life", timeout: float) -> str:
        try:
            answer = life.answers.get(timeout=timeout)
        except queue.Empty:
            life.end()
            raise MetricUnavailable(
                f"{self.name} gave no answer for {timeout:g} seconds and was stopped: give it more time or less to do"
                + life.last_words()
            ) from None
        if answer is None:
            life.wait(1.0)
            life.end()
            raise _DiedError(f"it ended with exit status {life.process.returncode}" + life.last_words())
        return answer


class _DiedError(Exception):
    """The process ended before it had answered."""


def _start(name: str, command: Sequence[str]) -> "subprocess.Popen[bytes]":
    # Java takes the names of files for UTF-8, and can open those beyond ASCII, only where the locale says so.
    environment = None if sys.platform == "win32" else {**os.environ, "LC_ALL": "C.UTF-8"}
    try:
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise MetricUnavailable(f"{name} could not be started: {error}; expected a program that runs") from None


class _Life:
    """One life of a process, with threads that fill and empty its pipes, so that neither side waits forever."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        """Lines of its output; ``None`` is the end."""
        self.complaints: deque[str] = deque(maxlen=_LINES_OF_COMPLAINT)
        """The last lines of its error output."""
        self.readers = [threading.Thread(target=read, daemon=True) for read in (self._read, self._read_complaints)]
        self.writer: threading.Thread | None = None
        for reader in self.readers:
            reader.start()

    def start_writing(self, lines: Sequence[str]) -> None:
        """Write while the answers are read: it may wait for us to take the first before it reads the last line."""
        self.writer = threading.Thread(target=self._write, args=(lines,), daemon=True)
        self.writer.start()

    def is_waiting(self) -> bool:
        """Whether it lives, has read all it was asked and has said no more than it was asked."""
        return self.process.poll() is None and self.answers.empty() and self._has_written()

    def last_words(self) -> str:
        """The end of its error output, to be put after a sentence; whole once it has ended."""
        return "; its last words: " + " / ".join(self.complaints) if self.complaints else ""

    def wait(self, seconds: float) -> None:
        """Give it time to end by itself."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    def end_gently(self) -> None:
        """Let it end at the end of its input; use force only where that does not help."""
        if self._has_written():
            self._close_input()
            self.wait(_SECONDS_TO_END)
        self.end()

    def end(self) -> None:
        """Kill it if it still runs, and leave nothing behind: no zombie, no thread, no open pipe."""
        self.process.kill()
        self.process.wait()
        if self._has_written():
            self._close_input()
        for reader, pipe in zip(self.readers, (self.process.stdout, self.process.stderr), strict=True):
            reader.join(_SECONDS_TO_END)
            # Closing would wait for a reader, and a reader may wait for a child of the process that holds the pipe.
            if pipe is not None and not reader.is_alive():
                pipe.close()

    def _has_written(self) -> bool:
        if self.writer is not None:
            self.writer.join(_SECONDS_TO_END)
        return self.writer is None or not self.writer.is_alive()

    def _close_input(self) -> None:
        if self.process.stdin is not None:
            # What is still to be written may have no reader any more.
            with contextlib.suppress(OSError):
                self.process.stdin.close()

    def _write(self, lines: Sequence[str]) -> None:
        if self.process.stdin is not None:
            # Where it died, whoever waits for the answers sees that they end, and says why.
            with contextlib.suppress(OSError):
                for line in lines:
                    self.process.stdin.write(line.encode("utf-8") + b"\n")
                self.process.stdin.flush()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.answers.put(line.decode("utf-8", "replace").rstrip("\r\n"))
        self.answers.put(None)

    def _read_complaints(self) -> None:
        for line in self.process.stderr or ():
            self.complaints.append(line.decode("utf-8", "replace").rstrip())


_processes: dict[tuple[int, str, tuple[str, ...]], LineProtocolProcess] = {}


def shared_process(name: str, command: Sequence[str]) -> LineProtocolProcess:
    """The one process of this command in this program, which ends with it.

    A forked child gets its own: two programs that ask one process would take each other's answers.
    """
    key = (os.getpid(), name, tuple(command))
    return _processes.setdefault(key, LineProtocolProcess(name, command))


@atexit.register
def close_shared_processes() -> None:
    """End the processes that this program shares; those of a parent are left alone."""
    for (owner, _, _), process in list(_processes.items()):
        if owner == os.getpid():
            process.close()


def as_line(words: Sequence[str]) -> str:
    r"""Words as one line of text that every tool can read: no line breaks inside, no halves of letters.

    >>> as_line(["a\nblack", "dog"])
    'a black dog'
    """
    line = " ".join(words)
    if line.isascii() and line.isprintable():
        return line
    return line.translate({ord("\n"): " ", ord("\r"): " ", 0: " "}).encode("utf-8", "replace").decode("utf-8")
