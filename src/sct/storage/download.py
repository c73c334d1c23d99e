"""Bounded download over HTTP for addresses that somebody else may have chosen.

A host that resolves to this machine, a private network or a link-local address is refused, after every redirect too
(server-side request forgery), and the connection goes to the very address that was checked (DNS rebinding). Size, time
and redirects are limited. Proxies, cookies and credentials are not used.
"""

import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPException, HTTPResponse
from time import monotonic
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from sct.errors import InputError, format_value
from sct.limits import MAX_DOWNLOAD_BYTES, MAX_DOWNLOAD_SECONDS

_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 3
_CHUNK_BYTES = 1 << 16
_HEADERS = {"User-Agent": "sct", "Accept": "image/*,*/*;q=0.5", "Accept-Encoding": "identity", "Connection": "close"}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def download(
    url: str,
    *,
    max_bytes: int = MAX_DOWNLOAD_BYTES,
    timeout: float = MAX_DOWNLOAD_SECONDS,
    is_allowed: Callable[[IPAddress], bool] | None = None,
) -> bytes:
    """Return the content at an http or https address; ``is_allowed`` decides on addresses, by default public ones."""
    deadline = monotonic() + timeout
    address = url
    for _ in range(_MAX_REDIRECTS + 1):
        with ExitStack() as stack:
            try:
                response = _open(_parse(address), deadline, is_allowed or is_public, stack)
                location = response.getheader("Location")
                if response.status not in _REDIRECTS or location is None:
                    return _read(response, url, max_bytes, deadline)
            except (OSError, HTTPException) as error:
                reason = "it took too long" if monotonic() >= deadline else str(error) or type(error).__name__
                raise InputError(
                    f"{url} cannot be downloaded ({reason}): expected an image within {timeout:g} seconds"
                ) from error
        address = urljoin(address, location)
    raise InputError(f"{url} redirects more than {_MAX_REDIRECTS} times: expected the address of an image")


def is_public(address: IPAddress) -> bool:
    """Whether an address is of the public internet, also if it embeds another.

    >>> [is_public(ipaddress.ip_address(text)) for text in ("93.184.216.34", "127.0.0.1", "169.254.169.254")]
    [True, False, False]
    >>> [is_public(ipaddress.ip_address(text)) for text in ("::1", "::ffff:10.0.0.1", "64:ff9b::7f00:1")]
    [False, False, False]
    """
    if isinstance(address, ipaddress.IPv6Address):
        embedded = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            embedded = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if embedded is not None:
            return is_public(embedded)
        if address.teredo is not None:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _parse(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        parts, has_port = urlsplit(""), False
    if parts.scheme not in _PORTS or not parts.hostname or not has_port:
        raise InputError(f"got address {format_value(url)}, expected http://HOST/... or https://HOST/...")
    if parts.username is not None or parts.password is not None:
        raise InputError(f"the address of {parts.hostname} has a name or password: expected one without")
    return parts


def _open(
    parts: SplitResult, deadline: float, is_allowed: Callable[[IPAddress], bool], stack: ExitStack
) -> HTTPResponse:
    """Send a request to an address that was checked; closed by ``stack``, also when the time is over."""
    host, port = str(parts.hostname), parts.port or _PORTS[parts.scheme]
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(item[4][0]) for item in found]
    for text in addresses:
        if not is_allowed(ipaddress.ip_address(text.partition("%")[0])):
            raise InputError(
                f"{host} is {text}, an address of this machine or of a private network: expected a public one"
            )
    connected = socket.create_connection((addresses[0], port), timeout=max(0.01, deadline - monotonic()))
    stack.callback(connected.close)
    if parts.scheme == "https":
        connected = ssl.create_default_context().wrap_socket(connected, server_hostname=host)
        stack.callback(connected.close)
    # A time-out of a socket is that of one read: a server that sends byte by byte would keep it for ever.
    timer = threading.Timer(max(0.0, deadline - monotonic()), _shut_down, [connected])
    timer.daemon = True
    timer.start()
    stack.callback(timer.cancel)
    connection = HTTPConnection(host, port)
    connection.sock = connected
    stack.callback(connection.close)
    target = quote(f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}", safe="/?&=%:@!$'()*+,;~[]")
    connection.request("GET", target, headers=_HEADERS)
    response = connection.getresponse()
    stack.callback(response.close)
    return response


def _read(response: HTTPResponse, url: str, max_bytes: int, deadline: float) -> bytes:
    if response.status != 200:
        raise InputError(f"{url} answers {response.status} {response.reason}: expected an image")
    too_large = InputError(f"{url} has more than {max_bytes:,} bytes: expected a smaller image")
    if response.length is not None and response.length > max_bytes:
        raise too_large
    content = bytearray()
    while chunk := response.read(_CHUNK_BYTES):
        content += chunk
        if len(content) > max_bytes:
            raise too_large
    if response.length:  # of a promised length, not all has come
        raise ConnectionError(f"{response.length:,} bytes are missing")
    if monotonic() >= deadline:
        raise TimeoutError
    return bytes(content)


def _shut_down(connected: socket.socket) -> None:
    try:
        connected.shutdown(socket.SHUT_RDWR)
    except OSError:  # closed meanwhile
        return
