"""Limits of a server."""

from dataclasses import dataclass
from math import inf, isfinite

from sct.errors import InputError

MEGABYTE = 2**20
_FORM_OVERHEAD = 16 * 1024
"""Bytes of a multipart body besides its parts."""
_MIN_CONNECTIONS, _MAX_CONNECTIONS = 16, 1024
_RESERVED = 128
"""File descriptors that are not used for connections."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerConfig:
    """Limits of one server; those of request fields are in ``schemas``."""

    max_image_bytes: int = 10 * MEGABYTE
    """Maximum size of an uploaded image file."""
    max_megapixels: float = 40.0
    """Maximum number of pixels of an image, in millions."""
    max_json_bytes: int = MEGABYTE
    """Maximum size of a request without its image."""
    header_timeout: float = 10.0
    """Seconds for the head of a request, for the rest of a body that was answered early, and for a client to read."""
    body_timeout: float = 30.0
    """Seconds for the body of a request."""
    request_timeout: float = 30.0
    """Seconds from the last byte of a request to its response."""
    keep_alive_timeout: float = 5.0
    """Seconds that a connection stays open without a request."""
    max_connections: int | None = None
    """Open connections, further ones replace those that wait; None: as many as file descriptors allow, at most 1024."""
    max_connections_per_address: int | None = None
    """The same for one address; None: a quarter."""
    max_queue: int = 64
    """Requests in flight, from the last byte of their body; further ones get a 429."""
    max_queue_bytes: int = 256 * MEGABYTE
    """Total size of all bodies in memory, those still arriving included."""
    max_batch: int = 32
    """Requests per batch."""
    max_new_images: int = 4
    """Images to encode per batch: encoding takes as long as dozens of captions, which should not wait for many."""
    max_delay: float = 0.004
    """Seconds that an idle batcher waits for further requests after the first."""
    restart_delay: float = 1.0
    """Seconds until a model thread that died is replaced."""
    cache_bytes: int = 128 * MEGABYTE
    """Size of the cache of encoded images."""
    token: str | None = None
    """Bearer token that requests must carry; None: no authentication."""
    hosts: frozenset[str] | None = None
    """Allowed host names, without port, against DNS rebinding; None: any."""

    def __post_init__(self) -> None:
        """Check the ranges of all limits."""
        for name in (
            "max_image_bytes",
            "max_megapixels",
            "max_json_bytes",
            "header_timeout",
            "body_timeout",
            "request_timeout",
            "keep_alive_timeout",
            "max_queue",
            "max_queue_bytes",
            "max_batch",
            "max_new_images",
        ):
            if not (isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise InputError(f"{name} is {getattr(self, name)}, expected more than 0")
        for name in ("max_connections", "max_connections_per_address"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}, expected 1 or more")
        for name in ("max_delay", "restart_delay", "cache_bytes"):
            if not (isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise InputError(f"{name} is {getattr(self, name)}, expected 0 or more")
        if self.max_queue_bytes < self.max_body_bytes:
            raise InputError(
                f"max_queue_bytes is {self.max_queue_bytes}, less than the largest request ({self.max_body_bytes}): "
                "raise it"
            )
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and self.token.strip()):
            raise InputError("the token is empty or not printable ASCII: use another token")

    @property
    def connections(self) -> int:
        """Maximum number of open connections."""
        free = int(min(_MAX_CONNECTIONS, _num_descriptors() - _RESERVED))
        return self.max_connections or max(_MIN_CONNECTIONS, free)

    @property
    def connections_per_address(self) -> int:
        """Maximum number of open connections of one address."""
        return self.max_connections_per_address or max(_MIN_CONNECTIONS // 2, self.connections // 4)

    @property
    def max_body_bytes(self) -> int:
        """Maximum size of a request body."""
        return self.max_image_bytes + self.max_json_bytes + _FORM_OVERHEAD


def _num_descriptors() -> float:
    """Return the number of file descriptors that this process may open (``ulimit -n``)."""
    try:
        import resource  # noqa: PLC0415 - Unix only
    except ImportError:
        return inf
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return inf if limit == resource.RLIM_INFINITY else limit
