"""Shell completion as the shells ask for it, and the scripts that make them ask."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sct.cli.completion import complete_model, complete_recipe, completed_words

SCT = Path(sys.executable).parent / "sct"


def ask(*arguments: str, **environment: str) -> str:
    """Output of ``sct`` with further environment variables."""
    done = subprocess.run(
        [SCT, *arguments], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("sct capt", ["caption"], id="a command"),
        pytest.param("sct train ti", ["tiny"], id="a recipe"),
        pytest.param("sct caption x.jpg --model def", ["default"], id="a model"),
        pytest.param("sct caption --recu", ["--recursive"], id="an option"),
        pytest.param("sct frobnicate --x", [], id="an unknown command"),
    ],
)
def test_bash(line, expected, tmp_path):
    words = line.split()
    done = ask(_SCT_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1), PWD=str(tmp_path))
    assert done.split() == expected


def test_zsh_has_summaries_on_one_line():
    done = ask(_SCT_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="sct stat")
    assert '"stats":"Print the number of captions' in done
    assert len(done.splitlines()) == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(shell):
    # Else typer looks for the shell among the parents of the process.
    script = ask("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert f"_SCT_COMPLETE=complete_{shell}" in script


def test_installation_for_bash(tmp_path):
    command = ["--install-completion", "bash"]
    assert "installed in" in ask(*command, HOME=str(tmp_path), _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert list(tmp_path.rglob("sct.sh"))


def test_completed_words():
    assert completed_words({}) is None
    assert completed_words({"_SCT_COMPLETE": "complete_bash"}) == []
    assert completed_words({"_SCT_COMPLETE": "complete_bash", "COMP_WORDS": 'sct show "a b'}) == ["show", '"a', "b"]


def test_files_are_completed_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / ".hidden").mkdir(parents=True)
    (tmp_path / "runs" / "mine.toml").touch()
    assert complete_recipe("runs/") == ["runs/mine.toml"]
    assert complete_recipe("nowhere/") == []
    assert complete_model("r") == ["runs/"]
    assert complete_model("") == ["default", "runs/"]


def test_completion_imports_no_torch():
    code = (
        "import sys, runpy\n"
        "sys.argv = ['sct']\n"
        "from sct.cli.main import run\n"
        "run([])\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    environment = {**os.environ, "_SCT_COMPLETE": "complete_bash", "COMP_WORDS": "sct train ti", "COMP_CWORD": "2"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["tiny"]
