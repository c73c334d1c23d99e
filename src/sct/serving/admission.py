"""Admission control: bounds requests in flight, and the memory of bodies while they arrive."""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from starlette.requests import Request

from sct.serving.config import ServerConfig
from sct.serving.counters import Counters
from sct.serving.middleware import APIError
from sct.serving.multipart import Body, read_body

_MAX_RETRY_AFTER = 60
_EXPIRED = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class AdmittedRequest:
    """A request whose body has arrived."""

    body: Body
    deadline: float
    """For its response, in ``time.monotonic`` seconds."""


class Admission:
    """Admits requests once their body has arrived, so that slow clients take no place of others."""

    def __init__(self, config: ServerConfig, counters: Counters) -> None:
        """Start without requests."""
        self._config, self._counters = config, counters
        self._num_bytes = 0
        self._arriving: dict[asyncio.Timeout, int] = {}
        """Bytes so far of the bodies that arrive, by their deadline, oldest first."""
        self.in_flight = 0
        """Number of admitted requests without a response."""

    @asynccontextmanager
    async def admit(self, request: Request, max_bytes: int) -> AsyncIterator[AdmittedRequest]:
        """Receive a body of at most ``max_bytes`` and admit the request; without room, answer 429."""
        self._check_room()  # before the client sends a body in vain
        body = await self._receive(request, max_bytes)
        try:
            self._check_room()
            self.in_flight += 1
            try:
                yield AdmittedRequest(body, time.monotonic() + self._config.request_timeout)
            finally:
                self.in_flight -= 1
        finally:
            self._num_bytes -= len(body.data)

    def too_many_requests(self, wait: float | None = None, reason: str | None = None) -> APIError:
        """``wait``: seconds until there is room; default: estimated from the requests in flight."""
        reason = reason or f"{self.in_flight} requests are in flight"
        wait = math.ceil(self.in_flight * self._counters.seconds_per_request() if wait is None else wait)
        return APIError(
            429,
            f"{reason}: retry after the seconds of the Retry-After header",
            {"retry-after": str(min(max(wait, 1), _MAX_RETRY_AFTER))},
        )

    def _check_room(self) -> None:
        if self.in_flight >= self._config.max_queue:
            raise self.too_many_requests()

    async def _receive(self, request: Request, max_bytes: int) -> Body:
        """Receive a body; the bytes of one that is returned remain counted."""
        timeout = asyncio.timeout(self._config.body_timeout)
        try:
            async with timeout:
                self._arriving[timeout] = 0
                body = await read_body(request, max_bytes, lambda size: self._count(timeout, size))
            if self._arriving.pop(timeout, None) is None:  # given up as its last bytes arrived
                raise self._out_of_memory()
            return body
        except TimeoutError:
            if timeout not in self._arriving:
                raise self._out_of_memory() from None
            raise APIError(408, f"the body did not arrive within {self._config.body_timeout:g} seconds") from None
        finally:
            self._num_bytes -= self._arriving.pop(timeout, 0)

    def _count(self, timeout: asyncio.Timeout, size: int) -> None:
        """Count bytes of a body; give up those that have been arriving longest while all take too much memory."""
        if timeout not in self._arriving:  # given up, and about to end
            return
        self._arriving[timeout] += size
        self._num_bytes += size
        while self._num_bytes > self._config.max_queue_bytes:
            oldest = next(iter(self._arriving))
            self._num_bytes -= self._arriving.pop(oldest)  # now: its task ends two turns of the loop later
            with suppress(RuntimeError):  # its own deadline has just passed, so that it ends anyway
                oldest.reschedule(_EXPIRED)

    def _out_of_memory(self) -> APIError:
        size = self._config.max_queue_bytes
        return self.too_many_requests(reason=f"the bodies of all requests would take more than {size} bytes of memory")
