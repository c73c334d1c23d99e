"""Admission control: bounds requests in flight, and the memory of bodies while they arrive."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
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
        self._arriving: dict[asyncio.Timeout, None] = {}
        """Deadlines of the bodies that arrive, oldest first."""
        self.in_flight = 0
        """Number of admitted requests without a response."""

    @asynccontextmanager
    async def admit(self, request: Request, max_bytes: int) -> AsyncIterator[AdmittedRequest]:
        """Receive a body of at most ``max_bytes`` and admit the request; without room, answer 429."""
        self._check_room()  # before the client sends a body in vain
        num_bytes = 0

        def count(size: int) -> None:
            nonlocal num_bytes
            num_bytes += size
            self._num_bytes += size
            self._limit_bytes()

        try:
            body = await self._receive(request, max_bytes, count)
            self._check_room()
            self.in_flight += 1
            try:
                yield AdmittedRequest(body, time.monotonic() + self._config.request_timeout)
            finally:
                self.in_flight -= 1
        finally:
            self._num_bytes -= num_bytes

    def too_many_requests(self, wait: float | None = None) -> APIError:
        """``wait``: seconds until there is room; default: estimated from the requests in flight."""
        wait = math.ceil(self.in_flight * self._counters.seconds_per_request() if wait is None else wait)
        return APIError(
            429,
            f"{self.in_flight} requests are in flight: retry after the seconds of the Retry-After header",
            {"retry-after": str(min(max(wait, 1), _MAX_RETRY_AFTER))},
        )

    def _check_room(self) -> None:
        if self.in_flight >= self._config.max_queue:
            raise self.too_many_requests()

    async def _receive(self, request: Request, max_bytes: int, count: Callable[[int], None]) -> Body:
        timeout = asyncio.timeout(self._config.body_timeout)
        try:
            async with timeout:
                self._arriving[timeout] = None
                return await read_body(request, max_bytes, count)
        except TimeoutError:
            if timeout.when() == _EXPIRED:
                raise self.too_many_requests() from None
            raise APIError(408, f"the body did not arrive within {self._config.body_timeout:g} seconds") from None
        finally:
            self._arriving.pop(timeout, None)

    def _limit_bytes(self) -> None:
        """Give up the body that has been arriving longest if all of them take too much memory."""
        if self._num_bytes > self._config.max_queue_bytes:
            oldest = next((each for each in self._arriving if each.when() != _EXPIRED), None)
            if oldest is not None:
                oldest.reschedule(_EXPIRED)
