"""Limits of a server."""

from dataclasses import dataclass
from math import isfinite

from sct.errors import InputError

MEGABYTE = 2**20
_FORM_OVERHEAD = 16 * 1024
"""Bytes of a multipart body besides its parts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerConfig:
    """Limits of one server; those of request fields are in ``schemas``."""

    max_image_bytes: int = 10 * MEGABYTE
    """Maximum size of an uploaded image file."""
    max_megapixels: float = 40.0
    """Maximum number of pixels of an image, in millions."""
    max_json_bytes: int = MEGABYTE
    """Maximum size of a request without its image."""
    request_timeout: float = 30.0
    """Seconds from the first byte of a request to its response."""
    max_queue: int = 64
    """Requests in flight; further ones get a 429."""
    max_queue_bytes: int = 256 * MEGABYTE
    """Total size of the bodies of requests in flight."""
    max_batch: int = 32
    """Requests per batch."""
    max_new_images: int = 4
    """Images to encode per batch: encoding takes as long as dozens of captions, which should not wait for many."""
    max_delay: float = 0.004
    """Seconds that an idle batcher waits for further requests after the first."""
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
            "request_timeout",
            "max_queue",
            "max_queue_bytes",
            "max_batch",
            "max_new_images",
        ):
            if not (isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise InputError(f"{name} is {getattr(self, name)}, expected more than 0")
        for name in ("max_delay", "cache_bytes"):
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
    def max_body_bytes(self) -> int:
        """Maximum size of a request body."""
        return self.max_image_bytes + self.max_json_bytes + _FORM_OVERHEAD
