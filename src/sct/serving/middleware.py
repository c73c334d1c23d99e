"""Authentication, origin checks, security headers and request counting; the error response of all routes."""

import hmac
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sct.serving.config import ServerConfig
from sct.serving.counters import Counters

SECURITY_HEADERS = {
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
PUBLIC_ROUTES = frozenset(("/v1/health", "/v1/openapi.json"))
"""Routes under /v1 that need no token; nor does anything outside."""


@dataclass(eq=False)
class APIError(Exception):
    """A request that is answered with an error."""

    status: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self) -> JSONResponse:
        """Return the HTTP response."""
        return error_response(self.status, self.message, self.headers)


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return ``{"error": message}``, the body of all errors, with the message on one line."""
    return JSONResponse({"error": " ".join(message.split())}, status, headers)


class SecurityMiddleware:
    """Accepts or rejects a request before its body is read, and counts it."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        config: ServerConfig,
        counters: Counters,
        routes: Iterable[str],
        is_stopping: Callable[[], bool],
    ) -> None:
        """``routes`` are counted by name, all others together."""
        self._app, self._config, self._counters = app, config, counters
        self._routes, self._is_stopping = frozenset(routes), is_stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI event."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.monotonic(), 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            try:
                self._check(scope["path"], Headers(scope=scope))
            except APIError as error:
                await error.response()(scope, receive, send_with_headers)
                return
            await self._app(scope, receive, send_with_headers)
        finally:
            route = scope["path"] if scope["path"] in self._routes else "other"
            self._counters.add_request(route, status, time.monotonic() - start)

    def _check(self, path: str, headers: Headers) -> None:
        host = headers.get("host", "")
        if self._config.hosts is not None and _host_name(host) not in self._config.hosts:
            raise APIError(403, f"got host {host[:100]!r}, expected the name of this machine")
        origin = headers.get("origin")
        if origin is not None and _origin_netloc(origin) != host.lower():
            raise APIError(403, f"got a request from a page of {origin[:100]!r}, expected this server's own page")
        if not path.startswith("/v1/") or path in PUBLIC_ROUTES:
            return
        if self._config.token is not None and not _has_token(headers, self._config.token):
            raise APIError(
                401, "the token is missing or wrong: send Authorization: Bearer TOKEN", {"www-authenticate": "Bearer"}
            )
        if self._is_stopping():
            raise APIError(503, "the server is stopping: retry later", {"retry-after": "5"})


def _has_token(headers: Headers, token: str) -> bool:
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    is_equal = hmac.compare_digest(credentials.strip().encode("latin-1", "replace"), token.encode())
    return is_equal and scheme.lower() == "bearer"


def _host_name(host: str) -> str:
    """Return a host without its port.

    >>> _host_name("localhost:8765"), _host_name("[::1]:8765")
    ('localhost', '::1')
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _origin_netloc(origin: str) -> str | None:
    """Return host and port of an origin; None for one without, such as "null"."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None
