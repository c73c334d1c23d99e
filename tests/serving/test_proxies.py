"""nginx and HAProxy with the files of ``deploy`` in front of two servers."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sct.serving.client import Client, StudioError
from sct.serving.config import ServerConfig
from sct.serving.multipart import image_id
from tests.serving.helpers import (
    LEFT,
    ROOT,
    UPLOAD,
    ServedCommand,
    parse_metrics,
    photo,
    receive,
    send_raw,
    serve_command,
    wait_until,
)

TOKEN = "secret"
NUM_IMAGES = 20
NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    scgi_temp_path {folder}/scgi;
    uwsgi_temp_path {folder}/uwsgi;
    include {folder}/sct.conf;
}}
"""


@dataclass
class Site:
    """A proxy and its two servers."""

    url: str
    gate: Path
    ports: list[int]
    servers: list[ServedCommand]
    stack: ExitStack = field(default_factory=ExitStack)

    def client(self, **options):
        return Client(self.url, token=TOKEN, **options)

    def count(self, name):
        """A metric of each server, by its port."""
        headers = {"authorization": f"Bearer {TOKEN}"}
        texts = [send_raw(server.url, "GET", "/v1/metrics", **headers)[2].decode() for server in self.servers]
        return [parse_metrics(text).get(name, 0.0) for text in texts]

    def server_of(self, image):
        """Index of the server that a new image is sent to."""
        before = self.count("sct_images_encoded_total")
        self.client().detect(image)
        after = self.count("sct_images_encoded_total")
        return [new - old for new, old in zip(after, before, strict=True)].index(1)


def require(program):
    """Skip a test if nginx or HAProxy is missing."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed (a package of Debian)")
    return program


def find_free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def serve(port, gate):
    arguments = ("--token", TOKEN, "--allow-host", "studio.example.org", "--max-queue", "1")
    return serve_command(*arguments, port=port, gate=gate)


@contextmanager
def run_proxy(program: str, folder: Path, ports: list[int]) -> Iterator[str]:
    """Run nginx or HAProxy with its shipped file, on other ports."""
    port, name = find_free_port(), {"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}[program]
    text = (ROOT / "deploy" / name).read_text(encoding="utf-8")
    changes = {"127.0.0.1:8765": f"127.0.0.1:{ports[0]}", "127.0.0.1:8766": f"127.0.0.1:{ports[1]}"}
    changes |= {"listen 8080;": f"listen 127.0.0.1:{port};"} if program == "nginx" else {}
    changes |= {"bind :8080\n": f"bind 127.0.0.1:{port}\n"} if program == "haproxy" else {}
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "sct.conf").write_text(text, encoding="utf-8")
    if program == "nginx":
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder), encoding="utf-8")
        command = ["nginx", "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]
    else:
        command = ["haproxy", "-db", "-f", str(folder / "sct.conf")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:

            def is_running():
                assert process.poll() is None
                with socket.socket() as connection:
                    return connection.connect_ex(("127.0.0.1", port)) == 0

            wait_until(is_running)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.fixture(scope="module", params=["nginx", "haproxy"])
def site(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(require(request.param))
    (gate := folder / "gate").touch()
    with ExitStack() as stack:
        ports = [find_free_port(), find_free_port()]
        servers = [stack.enter_context(serve(port, gate)) for port in ports]
        url = stack.enter_context(run_proxy(request.param, folder, ports))
        yield Site(url, gate, ports, servers, stack)


def test_requests_about_an_image_reach_one_server(site):
    client, encoded = site.client(), site.count("sct_images_encoded_total")
    for number in range(NUM_IMAGES):
        image = photo((number, 1, 2))
        for _ in range(2):
            client.detect(image)
            client.caption(image, [LEFT])
        site.client().detect(image)  # another client, which uploads the image again
    after = site.count("sct_images_encoded_total")
    new = [now - before for now, before in zip(after, encoded, strict=True)]
    assert sum(new) == NUM_IMAGES, "each image is encoded once"
    assert all(new), "both servers are used"
    for route in ("/v1/detect", "/v1/caption"):
        assert site.count(f'sct_requests_total{{route="{route}",status="404"}}') == [0, 0]


def test_requests_without_an_image_id_are_spread(site):
    name = 'sct_requests_total{route="/v1/detect",status="200"}'
    before = site.count(name)
    headers = {"authorization": f"Bearer {TOKEN}", "content_type": "multipart/form-data; boundary=x"}
    for _ in range(NUM_IMAGES):
        status, found, _ = send_raw(site.url, "POST", "/v1/detect", UPLOAD, **headers)
        assert (status, found["x-image-id"]) == (200, image_id(photo()))
    assert all(now > old for now, old in zip(site.count(name), before, strict=True))


def test_an_image_that_the_server_does_not_have_is_uploaded_again(site):
    client, image = site.client(), photo((7, 7, 7))
    client._known_images.add(image_id(image))
    assert client.detect(image) is not None


@pytest.mark.parametrize(
    ("host", "token", "status"),
    [
        pytest.param("studio.example.org", TOKEN, 200, id="allowed host"),
        pytest.param("localhost", TOKEN, 200, id="this machine"),
        pytest.param("evil.example.org", TOKEN, 403, id="DNS rebinding"),
        pytest.param("studio.example.org", "wrong", 401, id="wrong token"),
    ],
)
def test_the_servers_check_host_and_token(site, host, token, status):
    found = send_raw(site.url, "GET", "/v1/metrics", host=host, authorization=f"Bearer {token}")
    assert found[0] == status
    origin = send_raw(
        site.url, "GET", "/v1/metrics", host=host, authorization=f"Bearer {token}", origin="http://evil.example.org"
    )
    assert origin[0] == 403


def test_large_bodies_are_refused_before_they_are_sent(site):
    limit = ServerConfig().max_body_bytes
    head = f"POST /v1/detect HTTP/1.1\r\nHost: localhost\r\nContent-Length: {limit + 1}\r\n\r\n"
    with socket.create_connection(urlsplit(site.url).netloc.split(":"), timeout=60) as connection:
        connection.sendall(head.encode())
        status, body = receive(connection)
    assert status == 413
    assert list(json.loads(body)) == ["error"]


def test_a_busy_server_answers_429(site):
    site.gate.unlink()
    try:
        with ThreadPoolExecutor(1) as users:
            blocked = users.submit(site.client().detect, photo((50, 60, 70)))
            wait_until(lambda: 1 in site.count("sct_requests_in_flight"))
            with pytest.raises(StudioError, match="requests are in flight") as error:
                site.client(retries=0).detect(photo((50, 60, 70)))
            assert error.value.status == 429
            status, headers, _ = send_raw(
                site.url, "POST", "/v1/detect", UPLOAD, authorization=f"Bearer {TOKEN}",
                x_image_id=image_id(photo((50, 60, 70))), content_type="multipart/form-data; boundary=x",
            )  # fmt: skip
            assert status == 429
            assert int(headers["retry-after"]) >= 1
            site.gate.touch()
            assert blocked.result(60) is not None
    finally:
        site.gate.touch()


def test_a_dead_server_is_routed_around_and_comes_back(site):
    images = [photo((3, number, 9)) for number in range(NUM_IMAGES)]
    homes = [site.server_of(image) for image in images]
    assert set(homes) == {0, 1}
    site.servers[0].process.kill()
    site.servers[0].process.wait(60)
    client = site.client()
    for image in images:
        client._known_images.add(image_id(image))
        assert client.detect(image) is not None
        assert client.caption(image, [LEFT])
    site.servers[0] = site.stack.enter_context(serve(site.ports[0], site.gate))
    fresh = iter(range(100_000))

    def has_come_back():
        assert site.client().detect(photo((5, *divmod(next(fresh), 256)))) is not None
        return site.count("sct_images_encoded_total")[0] > 0

    wait_until(has_come_back)


@pytest.mark.parametrize("program", ["nginx", "haproxy"])
def test_no_server_answers(program, tmp_path):
    with run_proxy(require(program), tmp_path, [find_free_port(), find_free_port()]) as url:
        with pytest.raises(StudioError, match="no server answers: retry later") as error:
            Client(url).detect(photo())
        assert error.value.status == 503
        assert send_raw(url, "GET", "/v1/health")[1]["retry-after"] == "5"
