"""How much a server takes on."""

from dataclasses import dataclass
from math import isfinite

from sct.errors import InputError

MEGABYTE = 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerSettings:
    """Limits of one server; those on the fields of a message are in ``messages``."""

    image_bytes: int = 10 * MEGABYTE
    """Most bytes of an image as it is sent."""
    megapixels: float = 40.0
    """Most pixels of an image, in millions."""
    json_bytes: int = MEGABYTE
    """Most bytes of a request without its image."""
    seconds: float = 30.0
    """How long a request may take, from its first byte to its answer."""
    waiting: int = 64
    """Requests that are taken on at once; one more is sent away with 429."""
    waiting_bytes: int = 256 * MEGABYTE
    """Bytes that these may have sent, all together."""
    batch: int = 32
    """Requests that are answered together, at most."""
    looks: int = 4
    """New images among these, at most: a look takes as long as dozens of captions, which must not wait for many."""
    patience: float = 0.004
    """Seconds that the first of a batch waits for others, where the model has nothing else to do."""
    memory_bytes: int = 128 * MEGABYTE
    """What is kept of images that were looked at."""
    token: str | None = None
    """What a request must bear; None lets everybody in."""
    hosts: frozenset[str] | None = None
    """Names by which the server may be called, without port; None: any. It keeps a page whose name was made to lead
    to this machine from using the server as its own (DNS rebinding)."""

    def __post_init__(self) -> None:
        """Refuse what could answer nothing."""
        for name in (
            "image_bytes",
            "megapixels",
            "json_bytes",
            "seconds",
            "waiting",
            "waiting_bytes",
            "batch",
            "looks",
        ):
            if not (isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise InputError(f"{name} is {getattr(self, name)}: expected more than 0")
        for name in ("patience", "memory_bytes"):
            if not (isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise InputError(f"{name} is {getattr(self, name)}: expected 0 or more")
        if self.waiting_bytes < self.body_bytes:
            raise InputError(
                f"waiting_bytes is {self.waiting_bytes}, less than one request may have ({self.body_bytes}): raise it"
            )
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and self.token.strip()):
            raise InputError("the token is empty or has unusual characters: expected printable ASCII")

    @property
    def body_bytes(self) -> int:
        """Most bytes of a whole body; some are for what stands between the parts of a form."""
        return self.image_bytes + self.json_bytes + 16 * 1024
