"""Bodies that arrive slowly, are large or contradict their headers; real sockets, except for races of one loop turn."""

import asyncio
from contextlib import ExitStack

import pytest
from starlette.requests import Request

from sct.serving.admission import Admission
from sct.serving.config import ServerConfig
from sct.serving.counters import Counters
from sct.serving.middleware import APIError
from tests.serving.helpers import DETECT, UPLOAD, BlockingVision, receive, serve_sockets, trickle, wait_until

HEAD = b"POST /v1/detect HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def test_bodies_that_trickle_take_no_place_of_others():
    with serve_sockets(max_queue=1) as server, ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(server.connect()).sendall(CHUNKED + b"1\r\n-\r\n")
        wait_until(lambda: len(server.app.state.service._admission._arriving) == 4)
        connection = stack.enter_context(server.connect())
        for _ in range(2):
            connection.sendall(DETECT)
            assert receive(connection)[0] == 200
        assert server.app.state.service.in_flight == 0


def test_bodies_have_a_deadline():
    with serve_sockets(body_timeout=0.1, header_timeout=0.1) as server, server.connect() as connection:
        connection.sendall(CHUNKED)
        with pytest.raises(ConnectionError):
            trickle(connection, b"1\r\n-\r\n")
        with server.connect() as silent:
            silent.sendall(CHUNKED)
            status, body = receive(silent)
        assert (status, body) == (408, b'{"error":"the body did not arrive within 0.1 seconds"}')


def test_bodies_beyond_the_memory_replace_the_one_that_arrives_longest():
    limits = {"max_image_bytes": 20_000, "max_json_bytes": 1000, "max_queue_bytes": 40_000}
    piece = b"%x\r\n%s\r\n" % (15_000, b"-" * 15_000)
    with serve_sockets(**limits) as server, ExitStack() as stack:
        admission = server.app.state.service._admission
        slow = []
        for number in range(1, 4):
            slow.append(stack.enter_context(server.connect()))
            slow[-1].sendall(CHUNKED + piece)
            wait_until(lambda number=number: admission._num_bytes == min(number, 2) * 15_000)
        status, body = receive(slow[0])
        assert status == 429
        assert b"the bodies of all requests would take more than 40000 bytes of memory: retry after" in body
        connection = stack.enter_context(server.connect())
        connection.sendall(DETECT)
        assert receive(connection)[0] == 200
        assert len(admission._arriving) == 2
    assert admission._num_bytes == 0


async def upload(admission, receive):
    """Return the status of a request whose messages ``receive`` returns."""
    try:
        async with admission.admit(Request({"type": "http", "method": "POST", "headers": []}, receive), 20_000):
            return 200
    except APIError as error:
        return error.status


def message(size, *, more_body):
    return {"type": "http.request", "body": b"-" * size, "more_body": more_body}


def make_admission(max_queue_bytes):
    return Admission(
        ServerConfig(max_image_bytes=1000, max_json_bytes=1000, max_queue_bytes=max_queue_bytes), Counters()
    )


def test_one_byte_beyond_the_memory_drops_one_body():
    async def run():
        admission = make_admission(24_000)
        is_full, may_end = asyncio.Event(), asyncio.Event()

        async def send():
            yield message(2000, more_body=True)
            await is_full.wait()
            yield message(1, more_body=True)
            await may_end.wait()
            yield message(0, more_body=False)

        uploads = [asyncio.create_task(upload(admission, send().__anext__)) for _ in range(12)]
        while admission._num_bytes < 24_000:
            await asyncio.sleep(0)
        is_full.set()  # all of them receive a byte in one turn of the loop
        for _ in range(10):
            await asyncio.sleep(0)
        may_end.set()
        statuses = await asyncio.gather(*uploads)
        return statuses, admission._num_bytes, len(admission._arriving)

    assert asyncio.run(run()) == ([429] + [200] * 11, 0, 0)


def test_a_body_given_up_with_its_last_bytes_gets_a_429():
    async def run():
        admission = make_admission(20_000)
        admission._num_bytes = 15_000  # of requests in flight

        async def receive():
            return message(6000, more_body=False)

        return await upload(admission, receive), admission._num_bytes

    assert asyncio.run(run()) == (429, 15_000)


def test_memory_full_as_the_deadline_of_the_oldest_body_passes():
    """The body that fills the memory is innocent."""

    async def run():
        admission = make_admission(20_000)

        async def send_first():
            yield message(9000, more_body=True)
            await asyncio.Event().wait()

        async def send_second():
            yield message(9000, more_body=True)
            [oldest, _] = admission._arriving
            oldest.reschedule(asyncio.get_running_loop().time())
            await asyncio.sleep(0)  # it expires, and its task has yet to run
            assert oldest.expired()
            yield message(3000, more_body=False)

        uploads = [upload(admission, send().__anext__) for send in (send_first, send_second)]
        return await asyncio.gather(*uploads), admission._num_bytes

    assert asyncio.run(run()) == ([429, 200], 0)


def test_full_queue_is_answered_before_the_body_is_sent():
    vision = BlockingVision()
    with serve_sockets(vision, max_queue=1) as server, server.connect() as first, server.connect() as second:
        first.sendall(DETECT)
        assert vision.encoding.wait(60)
        second.sendall(CHUNKED)
        assert receive(second)[0] == 429
        vision.may_encode.set()
        assert receive(first)[0] == 200


def chunk(data, size):
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in [*pieces, b""])


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param(CHUNKED + chunk(UPLOAD, 1), 200, id="chunks of a byte"),
        pytest.param(CHUNKED + chunk(UPLOAD, 10**6), 200, id="one chunk"),
        pytest.param(CHUNKED + b"zz\r\n", 400, id="no size of a chunk"),
        pytest.param(CHUNKED + b"-1\r\n", 400, id="negative chunk"),
        pytest.param(HEAD + b"Content-Length: -1\r\n\r\n", 400, id="negative length"),
        pytest.param(HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, id="two lengths"),
        pytest.param(HEAD + b"Content-Length: 9" + b"9" * 15 + b"\r\n\r\n", 413, id="large length"),
        pytest.param(HEAD + b"Content-Length: 9" + b"9" * 5000 + b"\r\n\r\n", 400, id="huge length"),
        pytest.param(HEAD + b"Content-Length: 10\r\n\r\n" + UPLOAD[:10] + b"\x00" * 99, 400, id="too short a length"),
        pytest.param(HEAD + b"Content-Length: %d\r\n\r\n" % (len(UPLOAD) + 9) + UPLOAD, 408, id="too long a length"),
        pytest.param(HEAD + b"Transfer-Encoding: gzip\r\n\r\n", 400, id="another encoding"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", 400, id="no host"),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000, 400, id="large header"),
        pytest.param(b"\x16\x03\x01\x02", 400, id="TLS"),
        pytest.param(b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, id="not ASCII"),
    ],
)
def test_bodies_that_contradict_their_headers(request_, status):
    with serve_sockets(body_timeout=0.2) as server:
        with server.connect() as connection:
            connection.sendall(request_)
            assert receive(connection)[0] == status
        assert server.app.state.service.in_flight == 0
        with server.connect() as connection:
            connection.sendall(DETECT)
            assert receive(connection)[0] == 200, "the server still works"


def test_clients_that_leave_within_a_body_release_its_memory():
    with serve_sockets() as server:
        with server.connect() as connection:
            connection.sendall(CHUNKED + b"3\r\nabc\r\n")
            wait_until(lambda: server.app.state.service._admission._num_bytes == 3)
        wait_until(lambda: server.app.state.service._admission._num_bytes == 0)
        assert not server.app.state.service._admission._arriving
