"""The Dockerfiles of ``deploy``; ``benchmarks/release/container_steps.py`` runs their steps."""

import json
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from benchmarks.release.container_steps import parse_dockerfile
from tests.serving.helpers import ROOT, serve_command

DOCKERFILES = ("Dockerfile", "Dockerfile.gpu")


def read_values(name, instruction):
    text = (ROOT / "deploy" / name).read_text(encoding="utf-8")
    return [each.value for each in parse_dockerfile(text) if each.name == instruction]


def read_command(name, instruction):
    value = read_values(name, instruction)[-1]
    return json.loads(value[value.index("[") :])


@pytest.mark.parametrize("name", DOCKERFILES)
def test_copied_files_exist_and_are_not_ignored(name):
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {source for value in read_values(name, "COPY") if "--from" not in value for source in value.split()[:-1]}
    assert copied == kept
    assert all((ROOT / source).exists() for source in copied)


@pytest.mark.parametrize("name", DOCKERFILES)
def test_the_user_is_not_root(name):
    assert read_values(name, "USER") == ["10001"]


def test_entry_point_and_health_check():
    program, verb, *options = [*read_command("Dockerfile", "ENTRYPOINT"), *read_command("Dockerfile", "CMD")]
    assert (program, verb) == ("sct", "serve")
    assert read_values("Dockerfile", "EXPOSE") == ["8765"]
    port = options.index("--port")
    assert options[port + 1] == "8765"
    del options[port : port + 2]
    _, flag, check = read_command("Dockerfile", "HEALTHCHECK")
    with serve_command(*options, "--token", "secret") as command:
        served = check.replace("8765", str(urlsplit(command.url).port))
        assert served != check
        subprocess.run([sys.executable, flag, served], check=True)
        command.process.terminate()
        assert command.process.wait(60) == 0
        failed = subprocess.run([sys.executable, flag, served], check=False, stderr=subprocess.DEVNULL)
    assert failed.returncode != 0
