"""Listening sockets and the HTTP server."""

import ipaddress
import re
import signal
import socket
from collections.abc import Iterable
from functools import partial
from types import FrameType

import uvicorn
from fastapi import FastAPI

from sct.errors import InputError
from sct.serving.connections import ConnectionPool, Listener, TimedProtocol
from sct.serving.worker import Worker

_SHUTDOWN_TIMEOUT = 60
_HOST_NAME = re.compile(r"[\w.:-]+")
_BACKLOG = 2048
"""Connections that wait to be accepted."""


def listen(host: str, port: int) -> Listener:
    """Return a listening socket; port 0 picks a free one."""
    try:
        listener = Listener(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0])
    except OSError as error:
        raise InputError(f"unknown host {host!r} ({error}), expected a name or address of this machine") from error
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise InputError(f"cannot listen on port {port} of {host} ({error}): choose a free one with --port") from error
    listener.listen(_BACKLOG)
    return listener


def is_loopback(host: str) -> bool:
    """Return whether a host is reachable from this machine only.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def allowed_hosts(host: str, names: Iterable[str]) -> frozenset[str]:
    """Return the host names that requests may address: those of this machine's loopback, ``host`` and ``names``.

    >>> sorted(allowed_hosts("0.0.0.0", ["Studio.example.org", "[2001:db8::1]"]))
    ['127.0.0.1', '2001:db8::1', '::1', 'localhost', 'studio.example.org']
    """
    found = {"localhost", "127.0.0.1", "::1"}
    for name in (host, *names):
        bare = name.removeprefix("[").removesuffix("]").lower()
        if not _HOST_NAME.fullmatch(bare) or (":" in bare and not _is_address(bare)):
            raise InputError(f"got --allow-host {name!r}, expected a host name or address without scheme and port")
        if not (_is_address(bare) and ipaddress.ip_address(bare).is_unspecified):
            found.add(bare)
    return frozenset(found)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


class StudioServer(uvicorn.Server):
    """Uvicorn server that, on a signal, finishes requests in flight and rejects new ones."""

    def __init__(self, app: FastAPI, worker: Worker | None = None) -> None:
        """Configure the server; call ``run(sockets=[...])``. ``worker``: the process, if it is one of several."""
        self._app, self._worker = app, worker
        service = app.state.service
        on_change = (lambda _: None) if worker is None else worker.set_connections
        pool = ConnectionPool(service.config, service.counters, on_change)
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=partial(TimedProtocol, pool=pool),  # type: ignore[arg-type]
                backlog=_BACKLOG,
                ws="none",
                lifespan="on",
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections."""
        await super().startup(sockets)
        if self._worker is not None and self.started:
            self._worker.notify_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Stop gracefully, or at once on a second Ctrl-C; does not re-raise the signal as the base class does."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = self._app.state.service.is_stopping = True
