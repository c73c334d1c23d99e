"""A port, and an application behind it until it is told to stop."""

import ipaddress
import signal
import socket
from types import FrameType

import uvicorn
from fastapi import FastAPI

from sct.errors import InputError

_SECONDS_TO_FINISH = 60


def listen(host: str, port: int) -> socket.socket:
    """Take a port of a host; 0 takes any that is free."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        taken = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise InputError(
            f"host {host!r} is unknown ({error}): expected a name or an address of this machine"
        ) from error
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, port))
    except (OSError, OverflowError) as error:
        taken.close()
        raise InputError(f"port {port} of {host} cannot be taken ({error}): expected a free one, see --port") from error
    taken.listen(2048)
    return taken


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host.

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
    """Serves an application; a signal lets it finish what is in flight and refuse what comes after."""

    def __init__(self, app: FastAPI) -> None:
        """Prepare; ``run`` with the sockets to listen to."""
        self._app = app
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="on",
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=_SECONDS_TO_FINISH,
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Stop; a second Ctrl-C stops at once. Unlike its parent it does not raise the signal again at the end."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = self._app.state.desk.is_stopping = True
