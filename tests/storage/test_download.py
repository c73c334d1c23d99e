"""Downloads: what is allowed, and limits of size, time and redirects; from servers on this machine only."""

import ipaddress
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sct.errors import InputError
from sct.storage.download import download, is_public

CONTENT = bytes(range(256)) * 40


class Handler(BaseHTTPRequestHandler):
    """Answers by path."""

    def do_GET(self) -> None:
        """Send content, a redirect or something bad."""
        self.server.hosts.append(self.headers["Host"])
        if self.path.startswith("/to?"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to?"))
            self.end_headers()
            return
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        if self.path != "/endless":
            self.send_header("Content-Length", str(len(CONTENT) * (2 if self.path == "/cut" else 1)))
        self.end_headers()
        if self.path == "/slow":
            time.sleep(0.3)
        try:
            for _ in range(1000 if self.path == "/endless" else 1):
                self.wfile.write(CONTENT)
        except OSError:  # the client has had enough
            return

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.fixture(scope="module")
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.url, server.hosts = f"http://127.0.0.1:{server.server_port}", []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def download_here(url, **limits):
    return download(url, is_allowed=lambda address: address.is_loopback, **limits)


def test_content_and_redirects(server):
    assert download_here(f"{server.url}/a b.jpg?x=1") == CONTENT
    assert download_here(f"{server.url}/to?/image.jpg") == CONTENT
    assert download_here(f"{server.url}/to?{server.url}/to?/image.jpg") == CONTENT


@pytest.mark.parametrize(
    ("path", "limits", "message"),
    [
        pytest.param("/missing", {}, "answers 404", id="not found"),
        pytest.param("/image", {"max_bytes": 1000}, "more than 1,000 bytes", id="a length above the limit"),
        pytest.param("/endless", {"max_bytes": 20_000}, "more than 20,000 bytes", id="more than the limit, no length"),
        pytest.param("/cut", {}, "cannot be downloaded", id="cut off"),
        pytest.param("/slow", {"timeout": 0.1}, "took too long", id="slow"),
        pytest.param("/to?/to?/to?/to?/to?/image", {}, "redirects more than 3 times", id="redirects"),
        pytest.param("/to?file:///etc/passwd", {}, "expected http://HOST", id="a redirect to a file"),
        pytest.param("/to?http://10.0.0.1/", {}, "10.0.0.1, an address of this machine or", id="a redirect inside"),
        pytest.param("/to?//u:p@127.0.0.1/", {}, "has a name or password", id="a redirect with a password"),
    ],
)
def test_refusals(server, path, limits, message):
    with pytest.raises(InputError, match=message):
        download_here(f"{server.url}{path}", **limits)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "169.254.169.254", "192.168.1.1"])
def test_only_public_addresses_by_default(server, host):
    before = len(server.hosts)
    with pytest.raises(InputError, match=r"an address of this machine or|cannot be downloaded"):
        download(f"http://{host}:{server.server_port}/image")
    assert len(server.hosts) == before


def test_the_connection_goes_to_the_address_that_was_checked(server, monkeypatch):
    """A second answer of DNS (rebinding) would be another; the server still sees the host that was asked for."""
    answers = [("127.0.0.1", server.server_port), ("10.0.0.1", 1)]

    def resolve(*_args, **_options):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", answers.pop(0))]

    connect = socket.create_connection
    monkeypatch.setattr("socket.getaddrinfo", resolve)
    monkeypatch.setattr(
        "socket.create_connection", lambda address, timeout: connect_directly(address, timeout, connect)
    )
    assert download_here(f"http://images.example:{server.server_port}/image") == CONTENT
    assert answers == [("10.0.0.1", 1)]
    assert server.hosts[-1] == f"images.example:{server.server_port}"


def connect_directly(address, timeout, _connect):
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.settimeout(timeout)
    found.connect(address)
    return found


@pytest.mark.parametrize(
    "url", ["ftp://a/b", "http://", "http://a:x/", "http:///x", "file:///etc/passwd", "http://[x/"]
)
def test_other_addresses_are_refused(url):
    with pytest.raises(InputError, match=r"expected http://HOST"):
        download(url)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        pytest.param("8.8.8.8", True, id="public"),
        pytest.param("2606:4700::1111", True, id="public, IPv6"),
        pytest.param("2002:a00:1::", False, id="6to4 of a private one"),
        pytest.param("100.64.0.1", False, id="carrier-grade NAT"),
        pytest.param("224.0.0.1", False, id="multicast"),
        pytest.param("fd00::1", False, id="unique local"),
        pytest.param("fe80::1", False, id="link-local"),
        pytest.param("2001:0:1::1", False, id="Teredo"),
        pytest.param("64:ff9b::808:808", True, id="NAT64 of a public one"),
    ],
)
def test_is_public(address, expected):
    assert is_public(ipaddress.ip_address(address)) == expected
