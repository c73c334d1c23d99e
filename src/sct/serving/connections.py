"""Connections of the server: deadlines and limits against clients that are silent, slow or too many.

uvicorn waits for ever for a client's bytes, and asyncio retries and logs without bound when descriptors run out.
"""

import asyncio
import errno
import logging
import os
import socket
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sct.serving.config import ServerConfig
from sct.serving.counters import Counters

_ACCEPTS_PER_TICK = 32
"""Connections accepted before the event loop counts them and closes those beyond the limits."""
_HEAD_START = 0.001
"""Seconds that a less busy process has to accept a connection first."""
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_LOG_INTERVAL = 10.0
_BUSY_BODY = b'{"error": "too many connections are open: retry later"}'
_BUSY_RESPONSE = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 5\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_BUSY_BODY), _BUSY_BODY)
)

Wait = Literal["request", "rest of body", "next request", "reader"]
"""What the server waits for: the head of a request, the rest of a body that was answered early, another request of the
connection, or a client that does not read its response."""


class RateLimitFilter(logging.Filter):
    """Passes a message, whatever its arguments, once per interval; errors always."""

    def __init__(self, seconds: float = _LOG_INTERVAL) -> None:
        """``seconds``: the interval."""
        super().__init__()
        self._seconds = seconds
        self._next: dict[object, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record."""
        now = time.monotonic()
        if record.levelno < logging.ERROR and now < self._next.get(record.msg, 0.0):
            return False
        self._next[record.msg] = now + self._seconds
        return True


_log = logging.getLogger(__name__)
_log.addFilter(RateLimitFilter())


class Listener(socket.socket):
    """Listening TCP socket that keeps answering when file descriptors run out.

    Waiting connections are then accepted with a spare descriptor and closed: left in the queue, they would keep the
    event loop busy.
    """

    def __init__(self, family: int) -> None:
        """Open the socket; with its protocol given, asyncio sets TCP_NODELAY on connections."""
        super().__init__(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._spare: int | None = os.open(os.devnull, os.O_RDONLY)
        self._num_accepted = 0
        self._max_accepted = _ACCEPTS_PER_TICK
        self._is_busier: Callable[[], bool] = lambda: False

    def share_with(self, is_busier: Callable[[], bool]) -> None:
        """Share waiting connections with other processes: take one at a time, and if busier than others after them."""
        self._max_accepted, self._is_busier = 1, is_busier

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; raises BlockingIOError if none waits or enough were accepted in a row."""
        if self._num_accepted >= self._max_accepted:
            self._num_accepted = 0
            raise BlockingIOError
        if self._is_busier():
            time.sleep(_HEAD_START)
        try:
            accepted = super().accept()
        except OSError as error:
            self._num_accepted = 0
            if error.errno not in _OUT_OF_DESCRIPTORS:
                raise
            _log.warning("no file descriptor is left (%s): closing new connections; see ulimit -n", error.strerror)
            self._refuse()
            raise BlockingIOError from error
        self._num_accepted += 1
        return accepted

    def _refuse(self) -> None:
        if self._spare is None:
            time.sleep(0.05)  # rather than a busy loop, until descriptors are closed
        else:
            os.close(self._spare)
        with suppress(OSError):  # the client is gone, or another thread took the descriptor
            super().accept()[0].close()
        try:
            self._spare = os.open(os.devnull, os.O_RDONLY)
        except OSError:
            self._spare = None

    def close(self) -> None:
        """Close the socket and its spare descriptor."""
        super().close()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None


class ConnectionPool:
    """Open connections. A new one beyond a limit replaces the one that has waited longest for its client.

    So silent connections cannot keep others out. If all are within a request, the new one is refused.
    """

    def __init__(
        self, config: ServerConfig, counters: Counters, on_change: Callable[[int], None] = lambda _: None
    ) -> None:
        """Start empty; ``on_change`` is called with the number of open connections."""
        self.config, self._counters, self._on_change = config, counters, on_change
        self._max_open, self._max_open_of = config.connections, config.connections_per_address
        self._num_open = 0
        self._num_open_of: Counter[str] = Counter()
        self._waiting: dict[TimedProtocol, None] = {}
        """In the order in which they began to wait, as are those of an address."""
        self._waiting_of: defaultdict[str, dict[TimedProtocol, None]] = defaultdict(dict)

    def add(self, connection: "TimedProtocol") -> bool:
        """Count a connection; returns whether there is room for it."""
        address = connection.address
        has_room = True
        if self._num_open_of[address] >= self._max_open_of:
            has_room = self._evict(self._waiting_of[address])
        elif self._num_open >= self._max_open:
            has_room = self._evict(self._waiting)
        self._num_open += 1
        self._num_open_of[address] += 1
        self._on_change(self._num_open)
        return has_room

    def remove(self, connection: "TimedProtocol") -> None:
        """Forget a closed connection."""
        address = connection.address
        self.set_waiting(connection, is_waiting=False)
        self._num_open -= 1
        self._num_open_of[address] -= 1
        self._on_change(self._num_open)
        if not self._num_open_of[address]:
            del self._num_open_of[address], self._waiting_of[address]

    def set_waiting(self, connection: "TimedProtocol", *, is_waiting: bool) -> None:
        """Note whether a connection waits for its client."""
        for waiting in (self._waiting, self._waiting_of[connection.address]):
            waiting.pop(connection, None)
            if is_waiting:
                waiting[connection] = None

    def count_closed(self, reason: str) -> None:
        """Count a connection that the server closed."""
        self._counters.add_closed_connection(reason)

    def _evict(self, waiting: "dict[TimedProtocol, None]") -> bool:
        connection = next(iter(waiting), None)
        if connection is None:
            _log.warning("too many connections: refusing new ones")
            return False
        _log.warning("too many connections: closing those that have waited longest for their client")
        connection.abort("limit")
        return True


class TimedProtocol(H11Protocol):
    """HTTP/1.1 connection with a deadline whenever the server waits for the client outside the application.

    Deadlines are absolute: bytes that trickle do not extend them. The application has its own for bodies and responses.
    """

    def __init__(self, *args: Any, pool: ConnectionPool, **kwargs: Any) -> None:
        """Keyword arguments are uvicorn's."""
        super().__init__(*args, **kwargs)
        self.logger = _log
        self.address = ""
        self._pool, self._is_open = pool, False
        self._waits_for: Wait | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for a request, or refuse the connection."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._is_open = True
        if self._pool.add(self):
            self._set_deadline()
        else:
            self._pool.count_closed("limit")
            transport.write(_BUSY_RESPONSE)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handle bytes of the client."""
        super().data_received(data)
        self._set_deadline()

    def on_response_complete(self) -> None:
        """Start to wait for the next request."""
        super().on_response_complete()
        self._set_deadline()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._set_deadline()

    def resume_writing(self) -> None:
        """Go on."""
        super().resume_writing()
        self._set_deadline()

    def timeout_keep_alive_handler(self) -> None:
        """Do nothing: uvicorn would wait until the client has read all responses."""

    def abort(self, reason: Wait | Literal["limit"]) -> None:
        """Close the connection at once."""
        self._forget()
        self._pool.count_closed(reason)
        self.transport.abort()

    def _forget(self) -> None:
        if self._is_open:
            self._is_open = False
            self._set_timer(None)
            self._pool.remove(self)

    def _set_deadline(self) -> None:
        """Set the deadline of what the server waits for, unless it waits for it already."""
        waits_for = self._find_wait()
        if self._is_open and waits_for != self._waits_for:
            self._set_timer(waits_for)
            self._pool.set_waiting(self, is_waiting=waits_for is not None)

    def _set_timer(self, waits_for: Wait | None) -> None:
        self._waits_for = waits_for
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if waits_for is not None:
            config = self._pool.config
            seconds = config.keep_alive_timeout if waits_for == "next request" else config.header_timeout
            self._deadline = self.loop.call_later(seconds, self.abort, waits_for)

    def _find_wait(self) -> Wait | None:
        if self.flow.write_paused:
            return "reader"
        if not self.cycle:  # no request yet
            return "request"
        if not self.cycle.response_complete:
            return None
        if self.conn.their_state is h11.SEND_BODY:
            return "rest of body"
        return "request" if self.conn.trailing_data[0] else "next request"
