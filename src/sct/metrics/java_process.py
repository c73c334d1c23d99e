"""Long-lived subprocesses with a line protocol: started on the first request, reused for later ones.

Used for Java, which takes seconds to start; works with any program that replies to lines with lines.
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
"""Seconds without a reply after which a process counts as hung; generous because of slow disks at startup."""

STDERR_TAIL_LINES = 12
SHUTDOWN_TIMEOUT = 5.0


class LineProtocolProcess:
    """Subprocess that replies to lines with lines; starts on the first request and runs until closed.

    Threads may share it: requests are serialised. If the process dies it is restarted once and the request repeated, so
    requests must not depend on earlier ones. The program must exit at the end of its input, the only signal it gets
    when its parent is killed.
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self._command = list(command)
        self._lock = threading.Lock()
        self._handle: _ProcessHandle | None = None

    @property
    def pid(self) -> int | None:
        """Process id, None if not running."""
        handle = self._handle
        return handle.process.pid if handle else None

    def request(self, lines: Sequence[str], num_replies: int, *, timeout: float = DEFAULT_TIMEOUT) -> list[str]:
        """Write ``lines`` and read ``num_replies`` lines, concurrently to avoid a deadlock on full pipes.

        ``timeout`` is in seconds per reply.
        """
        with self._lock:
            try:
                return self._request(lines, num_replies, timeout)
            except _ProcessDiedError:
                pass
            try:
                return self._request(lines, num_replies, timeout)
            except _ProcessDiedError as error:
                raise MetricUnavailable(
                    f"{self.name} died twice during a request: {error}; are there captions of hundreds of words?"
                ) from None

    def close(self) -> None:
        """Shut the process down if it runs; the next request starts a new one."""
        with self._lock:
            handle, self._handle = self._handle, None
            if handle is not None:
                handle.shutdown()

    def _request(self, lines: Sequence[str], num_replies: int, timeout: float) -> list[str]:
        if self._handle is not None and not self._handle.is_idle():
            # It died in the meantime, or wrote unrequested lines that would be taken for the next replies.
            self._handle.kill()
            self._handle = None
        if self._handle is None:
            self._handle = _ProcessHandle(_start(self.name, self._command))
        handle = self._handle
        try:
            handle.start_writing(lines)
            return [self._next_reply(handle, timeout) for _ in range(num_replies)]
        except BaseException:
            # Pending replies to an interrupted request must not be taken for replies to the next one.
            self._handle = None
            handle.kill()
            raise

    def _next_reply(self, handle: "_ProcessHandle", timeout: float) -> str:
        try:
            reply = handle.replies.get(timeout=timeout)
        except queue.Empty:
            handle.kill()
            raise MetricUnavailable(
                f"{self.name} did not reply for {timeout:g} seconds and was killed: raise the timeout or send less"
                + handle.stderr_tail()
            ) from None
        if reply is None:
            handle.wait(1.0)
            handle.kill()
            raise _ProcessDiedError(f"exit status {handle.process.returncode}" + handle.stderr_tail())
        return reply


class _ProcessDiedError(Exception):
    """The process exited before it had replied."""


def _start(name: str, command: Sequence[str]) -> "subprocess.Popen[bytes]":
    # Java opens files with non-ASCII names only under a UTF-8 locale.
    environment = None if sys.platform == "win32" else {**os.environ, "LC_ALL": "C.UTF-8"}
    try:
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise MetricUnavailable(f"{name} could not be started: {error}; expected an executable program") from None


class _ProcessHandle:
    """A running process, with threads that write to and read from its pipes."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.replies: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        """Lines of stdout; ``None`` at its end."""
        self.stderr_lines: deque[str] = deque(maxlen=STDERR_TAIL_LINES)
        """Last lines of stderr."""
        self.readers = [threading.Thread(target=read, daemon=True) for read in (self._read_stdout, self._read_stderr)]
        self.writer: threading.Thread | None = None
        for reader in self.readers:
            reader.start()

    def start_writing(self, lines: Sequence[str]) -> None:
        """Write in a thread: the process may block on its output before it has read all input."""
        self.writer = threading.Thread(target=self._write, args=(lines,), daemon=True)
        self.writer.start()

    def is_idle(self) -> bool:
        """Whether the process runs, has consumed all input and has no unread output."""
        return self.process.poll() is None and self.replies.empty() and self._has_written()

    def stderr_tail(self) -> str:
        """Last lines of stderr as the end of an error message; complete once the process has exited."""
        return "; stderr: " + " / ".join(self.stderr_lines) if self.stderr_lines else ""

    def wait(self, seconds: float) -> None:
        """Wait for the process to exit by itself."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    def shutdown(self) -> None:
        """Close the input, wait for the process to exit, and kill it if it does not."""
        if self._has_written():
            self._close_stdin()
            self.wait(SHUTDOWN_TIMEOUT)
        self.kill()

    def kill(self) -> None:
        """Kill the process if it runs and release everything: no zombie, thread or open pipe remains."""
        self.process.kill()
        self.process.wait()
        if self._has_written():
            self._close_stdin()
        for reader, pipe in zip(self.readers, (self.process.stdout, self.process.stderr), strict=True):
            reader.join(SHUTDOWN_TIMEOUT)
            # Closing blocks while a reader reads, and a grandchild may still hold the pipe open.
            if pipe is not None and not reader.is_alive():
                pipe.close()

    def _has_written(self) -> bool:
        if self.writer is not None:
            self.writer.join(SHUTDOWN_TIMEOUT)
        return self.writer is None or not self.writer.is_alive()

    def _close_stdin(self) -> None:
        if self.process.stdin is not None:
            # Flushing fails if the process is gone.
            with contextlib.suppress(OSError):
                self.process.stdin.close()

    def _write(self, lines: Sequence[str]) -> None:
        if self.process.stdin is not None:
            # If the process died, the reader of replies notices and reports it.
            with contextlib.suppress(OSError):
                for line in lines:
                    self.process.stdin.write(line.encode("utf-8") + b"\n")
                self.process.stdin.flush()

    def _read_stdout(self) -> None:
        for line in self.process.stdout or ():
            self.replies.put(line.decode("utf-8", "replace").rstrip("\r\n"))
        self.replies.put(None)

    def _read_stderr(self) -> None:
        for line in self.process.stderr or ():
            self.stderr_lines.append(line.decode("utf-8", "replace").rstrip())


_processes: dict[tuple[int, str, tuple[str, ...]], LineProtocolProcess] = {}


def shared_process(name: str, command: Sequence[str]) -> LineProtocolProcess:
    """Return the one subprocess with this command; it exits with this process.

    A forked child gets its own: two processes sharing one would read each other's replies.
    """
    key = (os.getpid(), name, tuple(command))
    return _processes.setdefault(key, LineProtocolProcess(name, command))


@atexit.register
def close_shared_processes() -> None:
    """Shut down the shared subprocesses of this process, but not those of its parent."""
    for (owner, _, _), process in list(_processes.items()):
        if owner == os.getpid():
            process.close()


def as_line(words: Sequence[str]) -> str:
    r"""Join words to one line of valid UTF-8 without line breaks.

    >>> as_line(["a\nblack", "dog"])
    'a black dog'
    """
    line = " ".join(words)
    if line.isascii() and line.isprintable():
        return line
    return line.translate({ord("\n"): " ", ord("\r"): " ", 0: " "}).encode("utf-8", "replace").decode("utf-8")
