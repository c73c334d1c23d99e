"""Listening sockets and the HTTP server."""

import ipaddress
import signal
import socket
from functools import partial
from types import FrameType

import uvicorn
from fastapi import FastAPI

from sct.errors import InputError
from sct.serving.connections import ConnectionPool, Listener, TimedProtocol

_SHUTDOWN_TIMEOUT = 60
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
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class StudioServer(uvicorn.Server):
    """Uvicorn server that, on a signal, finishes requests in flight and rejects new ones."""

    def __init__(self, app: FastAPI) -> None:
        """Configure the server; call ``run(sockets=[...])``."""
        self._app = app
        service = app.state.service
        pool = ConnectionPool(service.config, service.counters)
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

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Stop gracefully, or at once on a second Ctrl-C; does not re-raise the signal as the base class does."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = self._app.state.service.is_stopping = True
