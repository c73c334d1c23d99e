"""Encoded image files, and servers in this process or on a port."""

import asyncio
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from tempfile import NamedTemporaryFile
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

ROOT = Path(__file__).parents[2]
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


def send_raw(address, method, path, body=b"", **headers):
    connection = HTTPConnection(urlsplit(address).netloc, timeout=60)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    try:
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


SERVE = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.color_vision import ColorVision
from tests.factories import make_captioner
gate = Path(sys.argv[2])
class GatedVision(ColorVision):
    def encode(self, images):
        if sys.argv[2]:
            print("encoding", os.getpid(), flush=True)
        while sys.argv[2] and not gate.exists():
            time.sleep(0.01)
        return super().encode(images)
import sct.captioner.captioner, sct.serving.service
sct.captioner.captioner.load = lambda *args, **kwargs: make_captioner(vision=GatedVision())
sct.serving.service.InferenceService.warm_up = lambda self: None
from sct.cli.main import run
sys.exit(run(["serve", "--threads", "1", *sys.argv[3:]]))
"""
"""``sct serve`` with a tiny captioner; its encoder prints the process and waits until the gate, a file, exists."""


@dataclass(frozen=True)
class ServedCommand:
    """A process that runs ``sct serve``."""

    process: subprocess.Popen
    url: str
    errors: Path

    def read_encoding_pid(self) -> int:
        """Wait until a process encodes; for a command with a gate."""
        word, pid = self.process.stdout.readline().split()
        assert word == "encoding"
        return int(pid)

    def read_errors(self) -> str:
        return self.errors.read_text(encoding="utf-8")

    def worker_pids(self) -> list[int]:
        """Living child processes."""
        return [pid for pid in all_pids() if parent_pid(pid) == self.process.pid]


@contextmanager
def serve_command(*arguments: str, gate: Path | None = None, port: int = 0) -> Iterator[ServedCommand]:
    """Run ``sct serve`` in a process of its own; nothing of it is left afterwards."""
    command = [sys.executable, "-c", SERVE, str(ROOT), str(gate or ""), "--port", str(port), *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "SCT_TOKEN"}
    with (
        NamedTemporaryFile("w") as errors,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        ) as process,
    ):
        try:
            line = process.stdout.readline()
            assert line.startswith("sct: http://"), Path(errors.name).read_text(encoding="utf-8")
            url = line.split()[1].partition("#")[0].rstrip("/").replace("0.0.0.0", "127.0.0.1")
            yield ServedCommand(process, url, Path(errors.name))
        finally:
            process.kill()


def all_pids() -> list[int]:
    """Processes of this machine that are not zombies."""
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and is_alive(int(path.name))]


def is_alive(pid: int) -> bool:
    return _process_status(pid)[:1] not in ([], ["Z"])


def parent_pid(pid: int) -> int | None:
    status = _process_status(pid)
    return int(status[1]) if status else None


def _process_status(pid: int) -> list[str]:
    """State, parent and more of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


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
