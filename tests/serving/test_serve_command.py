"""What ``sct serve`` refuses before it opens anything."""

import socket

import pytest

from sct.cli.main import run
from sct.errors import InputError
from sct.serving.config import ServerSettings


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--host", "0.0.0.0"], "opens the server to the network: give --token or SCT_TOKEN", id="open"),
        pytest.param(["--host", "no.such.host.invalid", "--no-token"], "is unknown", id="no host"),
        pytest.param(["--port", "70000"], "less than or equal to 65535", id="no port"),
        pytest.param(["--token", " "], "the token is empty", id="empty token"),
        pytest.param(["--token", "caf\u00e9"], "expected printable ASCII", id="token of other letters"),
        pytest.param(["--port", "0", "--model", "no/such/bundle"], "no/such/bundle", id="no bundle"),
        pytest.param(["--port", "0", "--device", "tpu"], "device 'tpu'", id="no device"),
    ],
)
def test_refuses(arguments, message, capsys, monkeypatch):
    monkeypatch.delenv("SCT_TOKEN", raising=False)
    assert run(["serve", *arguments]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


def test_refuses_a_port_that_is_in_use(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert run(["serve", "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot be taken" in capsys.readouterr().err


def test_help_names_what_can_be_set(capsys):
    assert run(["serve", "--help"]) == 0
    told = capsys.readouterr().out
    for option in ("--host", "--port", "--model", "--token", "--no-token", "--threads", "--batch", "--waiting"):
        assert option in told


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        pytest.param({"waiting": 0}, "waiting is 0: expected more than 0", id="nobody"),
        pytest.param({"seconds": float("inf")}, "seconds is inf", id="for ever"),
        pytest.param({"memory_bytes": -1}, "memory_bytes is -1: expected 0 or more", id="less than nothing"),
        pytest.param({"waiting_bytes": 10}, "less than one request may have", id="no room for one"),
    ],
)
def test_settings_refuse_what_could_answer_nothing(setting, message):
    with pytest.raises(InputError, match=message):
        ServerSettings(**setting)
