"""Every command and every Python block of README and guides runs as written, in a folder with the inputs they name.

Training is shortened to one step, and servers get a free port. A block that cannot run here says why in a directive
(``tests.docs.guides.read_steps``); a command of a program that is not known here fails.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack

import pytest

from sct.cli.main import run
from tests.docs.guides import PAGES, ROOT, Step, make_folder, read_steps

SMALL_MODEL = ["model.word_size=16", "model.hidden_size=16", "model.attention_size=8"]
DEFAULT_PORT = "8765"


def shorten(arguments):
    """Arguments that keep training short: one epoch, and small layers where no bundle gives their sizes."""
    if arguments[0] != "train":
        return []
    return ["max_epochs=1", *(SMALL_MODEL if arguments[1] == "flickr8k_images/cross_entropy" else [])]


class Reader:
    """A user who types what a page says."""

    def __init__(self, stack):
        self.stack, self.port = stack, DEFAULT_PORT

    def follow(self, step):
        code = step.code.replace(DEFAULT_PORT, self.port)
        if step.language == "python":
            self.run_program([sys.executable, "-c", code])
            return
        program, *arguments = shlex.split(code, comments=True)
        if program == "sct" and arguments[0] == "serve":
            self.serve(arguments)
        elif program == "sct" and arguments[0] == "export-onnx":  # torch's exporter uses what others deprecate
            self.run_program([sys.executable, "-m", "sct", *arguments])
        elif program == "sct":
            assert run([*arguments, *shorten(arguments)]) == 0, code
        elif program == "python":
            self.run_program([sys.executable, *arguments])
        elif program == "curl":
            if shutil.which("curl") is None:
                pytest.skip("curl is not installed")
            self.run_program([program, "--fail-with-body", *arguments])
        else:
            pytest.fail(f"{code!r} is neither run nor marked: add <!-- test: skip, REASON --> above its block")

    @staticmethod
    def run_program(command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"

    def serve(self, arguments):
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        server = self.stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "sct", *arguments, "--port", "0"],
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
        )
        self.stack.callback(server.terminate)
        for line in server.stdout:
            if address := re.search(r"127\.0\.0\.1:(\d+)", line):
                self.port = address[1]
                return
        pytest.fail("the server printed no address")


@pytest.mark.parametrize("page", PAGES)
def test_page_runs(page, tmp_path, monkeypatch):
    steps = list(read_steps((ROOT / page).read_text(encoding="utf-8")))
    assert steps
    make_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        reader = Reader(stack)
        for step in steps:
            reader.follow(step)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("no block", [], id="no block"),
        pytest.param("```\nsct a  # b\n$ sct c \\\n  d\n```\n", ["sct a  # b", "sct c    d"], id="commands"),
        pytest.param("```json\n{}\n```\n```text\nsct a\n```\n", [], id="other languages"),
        pytest.param("<!-- test: skip, no GPU -->\n```\nsct a\n```\n", [], id="block is skipped"),
        pytest.param(
            '<!-- test: skip "sct a", no GPU -->\n```\nsct a\nsct b\n```\n', ["sct b"], id="command is skipped"
        ),
        pytest.param("1. x\n\n   ```\n   sct a\n   ```\n", ["sct a"], id="in a list"),
    ],
)
def test_steps_of_a_page(text, expected):
    assert list(read_steps(text)) == [Step("shell", code) for code in expected]


def test_unmarked_commands_fail():
    with ExitStack() as stack, pytest.raises(pytest.fail.Exception, match="neither run nor marked"):
        Reader(stack).follow(Step("shell", "frobnicate --all"))
