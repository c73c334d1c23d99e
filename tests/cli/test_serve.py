"""Errors of ``sct serve`` and its configuration."""

import socket

import pytest

from sct.cli.main import run
from sct.errors import InputError
from sct.serving.config import ServerConfig
from sct.serving.server import StudioServer
from tests.factories import make_captioner
from tests.serving.helpers import AppClient


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--host", "0.0.0.0"], "serves the network: give --token", id="network without token"),
        pytest.param(["--host", "0.0.0.0", "--no-token"], "give --allow-host NAME", id="network without host names"),
        pytest.param(
            ["--host", "0.0.0.0", "--no-token", "--allow-host", "http://a.b"], "without scheme", id="host with a scheme"
        ),
        pytest.param(
            ["--host", "0.0.0.0", "--token", "t", "--allow-host", "a.b:80"], "and port", id="host with a port"
        ),
        pytest.param(
            ["--host", "no.such.host.invalid", "--no-token", "--allow-host", "a.b"], "unknown host", id="unknown host"
        ),
        pytest.param(["--port", "70000"], "less than or equal to 65535", id="invalid port"),
        pytest.param(["--max-queue", "16385"], "less than or equal to 16384", id="large queue"),
        pytest.param(["--max-batch", "1025"], "less than or equal to 1024", id="large batch"),
        pytest.param(["--max-image-mb", "1025"], "less than or equal to 1024", id="large images"),
        pytest.param(["--cache-mb", "1048577"], "less than or equal to 1048576", id="large cache"),
        pytest.param(["--token", " "], "the token is empty", id="empty token"),
        pytest.param(["--token", "caf\u00e9"], "not printable ASCII", id="token not in ASCII"),
        pytest.param(["--port", "0", "--model", "no/such/bundle"], "no/such/bundle", id="no bundle"),
        pytest.param(["--port", "0", "--workers", "2", "--model", "no/bundle"], "no/bundle", id="workers, no bundle"),
        pytest.param(["--port", "0", "--device", "tpu"], "device is 'tpu'", id="unknown device"),
    ],
)
def test_invalid_arguments(arguments, message, capsys, monkeypatch):
    monkeypatch.delenv("SCT_TOKEN", raising=False)
    assert run(["serve", *arguments]) == 2
    output = capsys.readouterr().err
    assert message in output
    assert output.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "host", "status"),
    [
        pytest.param(["--no-token", "--allow-host", "Studio.example.org"], "studio.example.org:8765", 200, id="named"),
        pytest.param(["--no-token", "--allow-host", "studio.example.org"], "localhost:8765", 200, id="this machine"),
        pytest.param(["--no-token", "--allow-host", "studio.example.org"], "evil.example.org", 403, id="DNS rebinding"),
        pytest.param(["--no-token", "--allow-host", "studio.example.org"], "0.0.0.0:8765", 403, id="unspecified"),
        pytest.param(["--token", "secret"], "any.example.org", 200, id="the token protects"),
        pytest.param(["--token", "secret", "--allow-host", "a.example.org"], "b.example.org", 403, id="token and host"),
    ],
)
def test_hosts_of_a_network_server(arguments, host, status, monkeypatch):
    """A page of another site can point its own name at this server, but not change the name that it addresses."""
    apps = []
    monkeypatch.setattr(StudioServer, "run", lambda self, **_: apps.append(self._app))
    monkeypatch.setattr("sct.captioner.captioner.load", lambda *_, **__: make_captioner())
    monkeypatch.setattr("sct.serving.service.InferenceService.warm_up", lambda _: None)
    assert run(["serve", "--host", "0.0.0.0", "--port", "0", "--threads", "1", *arguments]) == 0
    [app] = apps
    headers = {"host": host, "origin": f"http://{host}", "authorization": "Bearer secret"}
    client = AppClient(app)
    try:
        assert client.get("/v1/health", headers=headers).status_code == status
        assert client.get("/v1/metrics", headers=headers).status_code == status
        assert client.get("/", headers=headers).status_code == status
    finally:
        app.state.service.stop()


def test_port_in_use(capsys):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        for arguments in ([], ["--workers", "2"]):
            assert run(["serve", "--port", str(listener.getsockname()[1]), *arguments]) == 2
            assert "cannot listen on port" in capsys.readouterr().err


def test_workers_need_linux(capsys, monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    assert run(["serve", "--workers", "2"]) == 2
    assert "several processes need Linux" in capsys.readouterr().err


def test_help_lists_the_options(capsys):
    assert run(["serve", "--help"]) == 0
    output = capsys.readouterr().out
    for option in ("--host", "--port", "--model", "--token", "--no-token", "--threads", "--max-batch", "--max-queue"):
        assert option in output


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        pytest.param({"max_queue": 0}, "max_queue is 0, expected more than 0", id="no queue"),
        pytest.param({"request_timeout": float("inf")}, "request_timeout is inf", id="infinite timeout"),
        pytest.param({"cache_bytes": -1}, "cache_bytes is -1, expected 0 or more", id="negative cache"),
        pytest.param({"max_queue_bytes": 10}, "less than the largest request", id="queue below one request"),
    ],
)
def test_invalid_config(limits, message):
    with pytest.raises(InputError, match=message):
        ServerConfig(**limits)
