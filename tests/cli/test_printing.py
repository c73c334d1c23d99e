"""What all commands print: one line per error, control characters escaped, any encoding of stdout."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sct.cli.main import run
from sct.cli.printing import format_json, print_json, print_message

SCT = Path(sys.executable).parent / "sct"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("café 狗.jpg", "café 狗.jpg", id="other scripts"),
        pytest.param("a\x1b[2J.jpg", "a\\u001b[2J.jpg", id="terminal escape"),
        pytest.param("a\x9b2J.jpg", "a\\u009b2J.jpg", id="terminal escape of eight bits"),
        pytest.param("a\udce9.jpg", "a\\udce9.jpg", id="not UTF-8"),
        pytest.param("a\u202egpj.exe", "a\\u202egpj.exe", id="right to left"),
    ],
)
def test_names_of_others_are_escaped(text, expected, capsys):
    print_message(f"{text} does not exist")
    print_json({"image": text})
    out, err = capsys.readouterr()
    assert err == f"sct: {expected} does not exist\n"
    assert out == f'{{"image": "{expected}"}}\n'
    assert json.loads(out) == {"image": text}, "JSON keeps the name"
    assert json.loads(format_json({"image": text}, "ascii")) == {"image": text}
    assert format_json({"image": text}, "ascii").isascii()


def test_errors_escape_arguments(capsys):
    assert run(["stats", "a\x1b[31m\nb"]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        pytest.param("zoneinfo", 2, "sct: module zoneinfo cannot be imported", id="of Python"),
        pytest.param("sct.nothing", 1, "a bug in sct", id="of sct"),
        pytest.param(None, 1, "a bug in sct", id="unknown"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named(name, code, message, capsys, monkeypatch):
    def fail(_):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("sct.data.dataset.Dataset.open", fail)
    assert run(["stats", "x"]) == code
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line(tmp_path):
    with Path("/dev/full").open("wb") as full:
        found = subprocess.run([SCT, "--version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (found.returncode, found.stderr.count("\n")) == (2, 1)
    assert "the output cannot be written (No space left on device)" in found.stderr


def test_an_ascii_terminal_gets_escapes(tmp_path):
    (tmp_path / "café.jsonl").write_text('{"image": "a", "prediction": "a dog", "references": ["a dog"]}')
    environment = {**os.environ, "PYTHONIOENCODING": "ascii:strict", "NO_COLOR": "1"}
    command = [SCT, "score", "café.jsonl", "--metrics", "R"]
    found = subprocess.run(command, capture_output=True, env=environment, check=False, cwd=tmp_path)
    assert (found.returncode, found.stderr) == (0, b"")
    assert b"caf\\xe9.jsonl" in found.stdout
