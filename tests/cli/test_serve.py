"""Errors of ``sct serve`` and its configuration."""

import socket

import pytest

from sct.cli.main import run
from sct.errors import InputError
from sct.serving.config import ServerConfig


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--host", "0.0.0.0"], "serves the network: give --token", id="network without token"),
        pytest.param(["--host", "no.such.host.invalid", "--no-token"], "unknown host", id="unknown host"),
        pytest.param(["--port", "70000"], "less than or equal to 65535", id="invalid port"),
        pytest.param(["--token", " "], "the token is empty", id="empty token"),
        pytest.param(["--token", "caf\u00e9"], "not printable ASCII", id="token not in ASCII"),
        pytest.param(["--port", "0", "--model", "no/such/bundle"], "no/such/bundle", id="no bundle"),
        pytest.param(["--port", "0", "--device", "tpu"], "device is 'tpu'", id="unknown device"),
    ],
)
def test_invalid_arguments(arguments, message, capsys, monkeypatch):
    monkeypatch.delenv("SCT_TOKEN", raising=False)
    assert run(["serve", *arguments]) == 2
    output = capsys.readouterr().err
    assert message in output
    assert output.count("\n") == 1


def test_port_in_use(capsys):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        assert run(["serve", "--port", str(listener.getsockname()[1])]) == 2
    assert "cannot listen on port" in capsys.readouterr().err


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
