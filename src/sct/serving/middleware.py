"""What is answered where there is no answer: a status and one sentence.

What stands before every route: who may ask, what each answer bears, and that it is counted.
"""

import hmac
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sct.serving.config import ServerSettings
from sct.serving.counters import Counters


@dataclass(eq=False)
class APIError(Exception):
    """A request that is not answered."""

    status: int
    sentence: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self) -> JSONResponse:
        """As it is sent."""
        return error_response(self.status, self.sentence, self.headers)


def error_response(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The one form that all errors have."""
    return JSONResponse({"error": " ".join(sentence.split())}, status, headers)


ANSWER_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
        "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_OPEN_TO_ALL = ("/v1/health",)


class SecurityMiddleware:
    """Lets a request through or refuses it, before its body is read."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: ServerSettings,
        counters: Counters,
        routes: Iterable[str],
        is_stopping: Callable[[], bool],
    ) -> None:
        """``routes`` are counted by their names; all else together."""
        self._app, self._settings, self._counters = app, settings, counters
        self._routes, self._is_stopping = frozenset(routes), is_stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.monotonic(), 500

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in ANSWER_HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            try:
                self._check(scope["path"], Headers(scope=scope))
            except APIError as refusal:
                await refusal.response()(scope, receive, send_guarded)
                return
            await self._app(scope, receive, send_guarded)
        finally:
            route = scope["path"] if scope["path"] in self._routes else "other"
            self._counters.request(route, status, time.monotonic() - begun)

    def _check(self, path: str, headers: Headers) -> None:
        host = headers.get("host", "")
        if self._settings.hosts is not None and _host_name(host) not in self._settings.hosts:
            raise APIError(403, f"the request is for host {host[:100]!r}: expected the name of this machine")
        origin = headers.get("origin")
        if origin is not None and _place_of(origin) != host.lower():
            raise APIError(403, f"the request comes from a page of {origin[:100]!r}: expected this server's own page")
        if not path.startswith("/v1/") or path in _OPEN_TO_ALL:
            return
        if self._settings.token is not None and not _bears(headers, self._settings.token):
            raise APIError(
                401, "the server wants a token: send Authorization: Bearer TOKEN", {"www-authenticate": "Bearer"}
            )
        if self._is_stopping():
            raise APIError(503, "the server is stopping: ask another, or later", {"retry-after": "5"})


def _bears(headers: Headers, token: str) -> bool:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    is_right = hmac.compare_digest(given.strip().encode("latin-1", "replace"), token.encode())
    return is_right and scheme.lower() == "bearer"


def _host_name(host: str) -> str:
    """A host without its port.

    >>> _host_name("localhost:8765"), _host_name("[::1]:8765")
    ('localhost', '::1')
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _place_of(origin: str) -> str | None:
    """Host and port of an origin; None for one without, such as "null"."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None
