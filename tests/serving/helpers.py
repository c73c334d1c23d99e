"""Encoded image files, and servers in this process or on a port."""

import asyncio
import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPResponse
from urllib.parse import urlsplit

import httpx
import numpy as np
from fastapi import FastAPI
from PIL import Image

from sct.captioner.captioner import Captioner
from sct.serving.app import make_app
from sct.serving.config import ServerConfig
from sct.serving.server import StudioServer, listen
from tests.color_vision import BLUE, GRAY, GREEN, RED, ColorVision, paint_quarters
from tests.factories import make_captioner

LEFT, RIGHT, SMALL = [0.0, 0.0, 20.0, 20.0], [20.0, 0.0, 40.0, 20.0], [5.0, 5.0, 9.0, 9.0]


class BlockingVision(ColorVision):
    """Vision encoder that blocks until ``may_encode`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.may_encode, self.encoding = threading.Event(), threading.Event()

    def encode(self, images):
        self.encoding.set()
        assert self.may_encode.wait(60)
        return super().encode(images)


def encode_file(pixels: np.ndarray, image_format: str = "png", **options) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, image_format, **options)
    return file.getvalue()


def photo(*colors, **size) -> bytes:
    """PNG file of four coloured quarters, 40 x 20 pixels by default."""
    return encode_file(paint_quarters(*(colors or (RED, GREEN, GRAY, BLUE)), **size))


UPLOAD = b'--x\r\nContent-Disposition: form-data; name="image"\r\n\r\n' + photo() + b"\r\n--x--\r\n"
DETECT = (
    b"POST /v1/detect HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(UPLOAD), UPLOAD)
)
"""A complete request for detection."""


@contextmanager
def open_app(captioner: Captioner | None = None, *, page=None, **config) -> Iterator["AppClient"]:
    """Client of an application in this process."""
    extra = {} if page is None else {"page": page}
    app = make_app(captioner or make_captioner(), ServerConfig(**config), **extra)
    try:
        yield AppClient(app)
    finally:
        app.state.service.stop()


class AppClient:
    """Sends requests to an application without a port, one after another."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app

    def request(self, method: str, path: str, **options) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.request(method, path, **options)

        return asyncio.run(send())

    def get(self, path: str, **options) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options) -> httpx.Response:
        return self.request("POST", path, **options)

    def upload(self, path: str, data: bytes, params: dict | None = None) -> httpx.Response:
        """Post an image file with the JSON of a request."""
        part = {} if params is None else {"request": (None, json.dumps(params))}
        return self.post(path, files={"image": ("name.png", data), **part})

    def metrics(self) -> dict[str, float]:
        return parse_metrics(self.get("/v1/metrics").text)


@contextmanager
def run_server(app: FastAPI) -> Iterator[str]:
    """Serve an application on a port of this machine; yields its URL."""
    listener = listen("127.0.0.1", 0)
    server = StudioServer(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def wait_until(condition) -> None:
    """Wait for a condition that another thread makes true."""
    for _ in range(60_000):
        if condition():
            return
        time.sleep(0.001)
    raise AssertionError("the condition did not become true")


def parse_metrics(text: str) -> dict[str, float]:
    """Prometheus samples by name and labels."""
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


class SocketServer:
    """A server on a port, to be spoken to by plain sockets."""

    def __init__(self, app, address):
        self.app, self._address = app, urlsplit(address).netloc.split(":")

    def connect(self, source="127.0.0.1"):
        connection = socket.create_connection(self._address, timeout=60, source_address=(source, 0))
        return closing(connection)

    def num_closed(self, reason):
        metrics = parse_metrics(self.app.state.service.counters.text({}))
        return metrics.get(f'sct_connections_closed_total{{reason="{reason}"}}', 0)


@contextmanager
def serve_sockets(vision=None, **config):
    """Serve with the given settings."""
    app = make_app(make_captioner(vision=vision) if vision else make_captioner(), ServerConfig(**config))
    with run_server(app) as address:
        yield SocketServer(app, address)


def receive(connection):
    """Return the status and the body of a response."""
    response = HTTPResponse(connection)
    response.begin()
    return response.status, response.read()


def trickle(connection, piece):
    """Send pieces, each of them well within a time-out."""
    for _ in range(60_000):
        connection.sendall(piece)
        time.sleep(0.001)
