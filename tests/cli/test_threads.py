"""Choice of threads and wait policy before PyTorch is imported."""

import os
import subprocess
import sys

import pytest
import torch

from sct.cli.main import VERBS, run
from sct.cli.threads import configure_threads


@pytest.fixture
def environment(monkeypatch):
    """An empty environment, and no PyTorch yet."""
    monkeypatch.delitem(sys.modules, "torch")
    variables = {}
    monkeypatch.setattr(os, "environ", variables)
    monkeypatch.setattr("sct.cli.threads.count_cores", lambda: 3)
    monkeypatch.setattr("sct.cli.threads.count_affinity", lambda: 6)
    return variables


PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}


@pytest.mark.parametrize(
    ("given", "threads", "expected"),
    [
        pytest.param({}, None, {**PASSIVE, "OMP_NUM_THREADS": "3"}, id="nothing set"),
        pytest.param({}, 2, {**PASSIVE, "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}, id="--threads"),
        pytest.param({"OMP_NUM_THREADS": "1"}, None, {**PASSIVE, "OMP_NUM_THREADS": "1"}, id="the user's number"),
        pytest.param(
            {"OMP_NUM_THREADS": "1"},
            2,
            {**PASSIVE, "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"},
            id="--threads over the user's number",
        ),
        pytest.param(
            {"OMP_WAIT_POLICY": "ACTIVE"},
            None,
            {"OMP_WAIT_POLICY": "ACTIVE", "OMP_NUM_THREADS": "3"},
            id="the user's wait policy",
        ),
        pytest.param(
            {"KMP_BLOCKTIME": "5"}, None, {"KMP_BLOCKTIME": "5", "OMP_NUM_THREADS": "3"}, id="the user's block time"
        ),
    ],
)
def test_variables(environment, given, threads, expected):
    environment.update(given)
    configure_threads(threads)
    assert {name: value for name, value in environment.items() if "PYTEST" not in name} == expected


@pytest.mark.parametrize(("num_workers", "threads"), [(1, "3"), (2, "1"), (3, "1"), (9, "1")])
def test_workers_divide_the_cores(environment, num_workers, threads):
    configure_threads(None, num_workers)
    assert environment["OMP_NUM_THREADS"] == threads


def test_the_runtime_counts_its_processors_itself(environment, monkeypatch):
    monkeypatch.setattr("sct.cli.threads.count_cores", lambda: 6)
    configure_threads(None)
    assert {name: value for name, value in environment.items() if "PYTEST" not in name} == PASSIVE


def test_after_pytorch_only_a_given_number_is_applied():
    before, variables = torch.get_num_threads(), dict(os.environ)
    try:
        configure_threads(None)
        assert torch.get_num_threads() == before
        configure_threads(before + 1)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
    assert dict(os.environ) == variables


def test_the_runtime_that_pytorch_loads_reads_them():
    code = "from sct.cli.threads import configure_threads as c; c(1); import torch; print(torch.get_num_threads())"
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
    variables = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**variables, "OMP_DISPLAY_ENV": "VERBOSE"},
    )
    assert done.stdout == "1\n"
    if "GOMP" not in done.stderr:
        pytest.skip("PyTorch does not use GNU's OpenMP runtime here")
    assert "OMP_WAIT_POLICY = 'PASSIVE'" in done.stderr
    assert "GOMP_SPINCOUNT = '1000'" in done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_has_the_option(verb, capsys):
    assert run([verb, "--help"]) == 0
    assert "--threads N" in capsys.readouterr().out


@pytest.mark.parametrize("number", ["0", "1025", "two"])
def test_invalid_number(number, capsys):
    assert run(["caption", "a.jpg", "--threads", number]) == 2
    assert "--threads" in capsys.readouterr().err
