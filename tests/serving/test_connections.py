"""Clients that are silent, slow or too many do not keep others from being served; real sockets."""

import errno
import logging
import os
import resource
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from sct.serving import connections
from sct.serving.config import ServerConfig
from sct.serving.server import listen
from tests.serving.helpers import DETECT, BlockingVision, receive, serve_sockets, trickle, wait_until

HEALTH = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def is_closed(connection):
    """Wait until the server closes a connection."""
    try:
        return connection.recv(100_000) == b""
    except ConnectionResetError:
        return True


def get_health(connection):
    connection.sendall(HEALTH)
    return receive(connection)[0] == 200


def test_silent_connections_are_closed():
    with serve_sockets(header_timeout=0.05) as server, server.connect() as connection:
        assert is_closed(connection)
        assert server.num_closed("request") == 1


@pytest.mark.parametrize("after", [b"", HEALTH], ids=["first request", "second request"])
def test_headers_that_trickle_have_a_deadline(after):
    with serve_sockets(header_timeout=0.1, keep_alive_timeout=60) as server, server.connect() as connection:
        if after:
            assert get_health(connection)
        with pytest.raises(ConnectionError):
            trickle(connection, b"G")
        assert server.num_closed("request") == 1


def test_idle_connections_are_closed():
    with serve_sockets(header_timeout=60, keep_alive_timeout=0.05) as server, server.connect() as connection:
        assert get_health(connection)
        assert is_closed(connection)
        assert server.num_closed("next request") == 1


@pytest.mark.parametrize("ends", [False, True], ids=["endless", "complete, then silent"])
def test_rest_of_a_body_that_was_answered_early_has_a_deadline(ends):
    head = b"POST /v1/detect HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with (
        serve_sockets(header_timeout=0.1, keep_alive_timeout=0.1, token="secret") as server,
        server.connect() as connection,
    ):
        connection.sendall(head)
        assert receive(connection)[0] == 401
        if ends:
            connection.sendall(b"0\r\n\r\n")
            assert is_closed(connection)
            assert server.num_closed("next request") == 1
            return
        with pytest.raises(ConnectionError):
            trickle(connection, b"1\r\nx\r\n")
        assert server.num_closed("rest of body") == 1


def test_clients_that_do_not_read_are_closed():
    request = b"GET /samples/hikers.jpg HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serve_sockets(header_timeout=0.2, keep_alive_timeout=60) as server, server.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with ThreadPoolExecutor(1) as sender:
            sent = sender.submit(connection.sendall, request * 500)
            wait_until(lambda: server.num_closed("reader") == 1)
        assert isinstance(sent.exception(), ConnectionError | None)


def test_connections_beyond_the_limit_replace_those_that_wait_longest():
    with serve_sockets(max_connections=4, max_connections_per_address=4) as server, ExitStack() as stack:
        silent = [stack.enter_context(server.connect()) for _ in range(3)]
        used = stack.enter_context(server.connect())
        assert get_health(used)
        silent += [stack.enter_context(server.connect()) for _ in range(2)]
        assert is_closed(silent[0])
        assert is_closed(silent[1])
        assert all(map(get_health, (used, *silent[2:]))), "the others are still open"
        assert server.num_closed("limit") == 2


def test_connections_of_one_address_do_not_keep_others_out():
    with serve_sockets(max_connections=8, max_connections_per_address=3) as server, ExitStack() as stack:
        other = stack.enter_context(server.connect("127.0.0.2"))
        assert get_health(other)
        many = [stack.enter_context(server.connect()) for _ in range(10)]
        assert all(map(is_closed, many[:7]))
        assert get_health(other)
        assert get_health(stack.enter_context(server.connect("127.0.0.3")))
        assert all(map(get_health, many[7:]))


def test_connections_are_refused_while_all_are_within_a_request():
    vision = BlockingVision()
    with serve_sockets(vision, max_connections=2, max_connections_per_address=2) as server, ExitStack() as stack:
        busy = [stack.enter_context(server.connect()) for _ in range(2)]
        for connection in busy:
            connection.sendall(DETECT)
        wait_until(lambda: server.app.state.service.in_flight == 2)
        refused = receive(stack.enter_context(server.connect()))
        assert refused == (503, b'{"error": "too many connections are open: retry later"}')
        vision.may_encode.set()
        assert all(receive(connection)[0] == 200 for connection in busy)


def test_limits_follow_the_number_of_file_descriptors(monkeypatch):
    def connections_at(limit):
        monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
        return ServerConfig().connections, ServerConfig().connections_per_address

    assert connections_at(1024) == (896, 224)
    assert connections_at(64) == (16, 8)
    assert connections_at(resource.RLIM_INFINITY) == (1024, 256)


def test_many_silent_connections_at_once(caplog):
    """More than are accepted in a row, and many times the limit."""
    with serve_sockets(max_connections=20, max_connections_per_address=20) as server, ExitStack() as stack:
        for _ in range(150):
            stack.enter_context(server.connect())
        wait_until(lambda: server.num_closed("limit") == 130)
        assert get_health(stack.enter_context(server.connect()))
    assert len(caplog.records) <= 1, "one line, not one for each connection"


def test_accepted_connections_send_without_delay(monkeypatch):
    """Nagle's algorithm with delayed acknowledgements costs 40 ms for each response on an open connection."""
    options, connection_made = [], connections.TimedProtocol.connection_made

    def record(self, transport):
        options.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        connection_made(self, transport)

    monkeypatch.setattr(connections.TimedProtocol, "connection_made", record)
    with serve_sockets() as server, server.connect() as connection:
        assert get_health(connection)
    assert options == [1]


def test_without_descriptors_connections_are_closed(monkeypatch):
    """They would stay in the queue otherwise, and keep the event loop busy."""
    with listen("127.0.0.1", 0) as listener, closing(socket.create_connection(listener.getsockname())) as connection:
        accept = socket.socket.accept
        num_calls = 0

        def accept_with_spare(self):
            nonlocal num_calls
            num_calls += 1
            if num_calls == 1:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return accept(self)

        monkeypatch.setattr(socket.socket, "accept", accept_with_spare)
        with pytest.raises(BlockingIOError):
            listener.accept()
        assert is_closed(connection)
        spare = listener._spare
        assert os.fstat(spare)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(spare)


def test_messages_are_logged_once_per_interval(monkeypatch):
    now = 100.0
    monkeypatch.setattr(connections.time, "monotonic", lambda: now)
    limit = connections.RateLimitFilter(10.0)

    def passes(message, level=logging.WARNING):
        return limit.filter(logging.LogRecord("", level, "", 0, message, (), None))

    assert [passes("a"), passes("a"), passes("b")] == [True, False, True]
    assert passes("a", logging.ERROR), "errors always"
    now += 11
    assert passes("a")


@pytest.mark.parametrize(
    ("name", "value"), [("header_timeout", 0), ("body_timeout", -1), ("max_connections", 0), ("keep_alive_timeout", 0)]
)
def test_limits_are_positive(name, value):
    with pytest.raises(ValueError, match=name):
        ServerConfig(**{name: value})
