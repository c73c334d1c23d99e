"""Training in subprocesses: several at once, interrupted, resumed, out of memory."""

import json
import signal
import sys
import time
from dataclasses import replace

import pytest

from sct.reproduction.plan import plan_run
from sct.reproduction.published import RowKey
from sct.reproduction.records import REPORT
from sct.reproduction.runs import LOG, RunPaths
from sct.reproduction.train_missing import Outcome, final_report, job_environment, train_missing
from sct.storage.atomic import lock
from sct.training.captioner.config import CaptionerRecipe
from sct.training.checkpoint import TrainState, load_checkpoint, save_checkpoint
from sct.training.run_dir import CHECKPOINT, LOCK, RECIPE, RunDir
from tests.factories import make_noun_dataset
from tests.reproduction.helpers import SMALL, discard, make_config

SORTER = plan_run(RowKey("coco", "class_order", ""))
CAPTIONER = plan_run(RowKey("coco", "ours", "cross_entropy"))
ENDLESS = ("cross_entropy:max_steps=0", "cross_entropy:max_epochs=1000000", "cross_entropy:patience=0")


@pytest.fixture
def config(tmp_path):
    data = make_noun_dataset(tmp_path / "tiny")
    return make_config(tmp_path, data, overrides=(*SMALL, "sorter:holdout=0.3"))


@pytest.fixture
def paths(config):
    return RunPaths(config)


def train(paths, runs, jobs=1, log=discard):
    with train_missing(paths, runs, jobs=jobs, dataset_sha256="data", log=log) as outcomes:
        return list(outcomes)


def test_nothing_to_train(paths):
    assert train(paths, [], jobs=2) == []


@pytest.mark.parametrize(
    ("given", "jobs", "expected"),
    [
        pytest.param("6", 1, "6", id="one job"),
        pytest.param("6", 4, "1", id="divided"),
        pytest.param("2", 4, "1", id="more jobs than threads"),
        pytest.param("", 2, "4", id="none given, of 8 cores"),
        pytest.param("4,2", 2, "4", id="nested levels, of 8 cores"),
    ],
)
def test_jobs_share_the_threads(given, jobs, expected, monkeypatch):
    monkeypatch.setattr("sct.reproduction.train_missing.count_cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    monkeypatch.setenv("MKL_NUM_THREADS", "6")
    environment = job_environment(jobs)
    assert (environment["OMP_NUM_THREADS"], environment["MKL_NUM_THREADS"]) == (expected, expected)


def test_interrupted_runs_are_resumed(config, paths):
    endless = RunPaths(replace(config, overrides=(*config.overrides, *ENDLESS)))
    with train_missing(endless, [SORTER, CAPTIONER], jobs=2, dataset_sha256="data", log=discard) as outcomes:
        assert next(outcomes) == Outcome(SORTER)
        while not RunDir.status(paths.path(CAPTIONER)).is_started:
            time.sleep(0.05)
    path = paths.path(CAPTIONER)
    assert (path / LOG).exists()
    assert not (path / REPORT).exists()
    assert not paths.is_finished(CAPTIONER), "though it may have a best bundle"
    with (path / LOCK).open("ab") as file:
        lock(file, path)  # the process has ended
    # A resumed run may have another limit of steps; this one has taken more than two.
    spent = load_checkpoint(path / CHECKPOINT).state.seconds
    timed = RunPaths(replace(config, overrides=(*config.overrides, "cross_entropy:max_seconds=1000")))
    assert train(timed, [CAPTIONER]) == [Outcome(CAPTIONER)]
    assert paths.is_finished(CAPTIONER)
    recipe = CaptionerRecipe.load(path / RECIPE)
    assert (recipe.max_steps, recipe.max_seconds) == (2, 1000 - spent), "the remaining time"
    assert " max_seconds=1000" in paths.commands(CAPTIONER)[-1], "but the whole budget in its command"
    assert json.loads((path / REPORT).read_text())["dataset"] == "data"


@pytest.mark.parametrize(
    ("overrides", "spent", "expected"),
    [
        pytest.param((), 50.0, [], id="no limit"),
        pytest.param(("cross_entropy:max_seconds=60",), None, [], id="killed before its first checkpoint"),
        pytest.param(("cross_entropy:max_seconds=60",), 50.0, ["max_seconds=10.0"], id="some time left"),
        pytest.param(("cross_entropy:max_seconds=60",), 60.0, ["max_seconds=0.001"], id="no time left, which is not 0"),
    ],
)
def test_remaining_time_of_a_resumed_run(overrides, spent, expected, config):
    paths = RunPaths(replace(config, overrides=overrides))
    if spent is not None:
        paths.path(CAPTIONER).mkdir(parents=True)
        save_checkpoint(paths.path(CAPTIONER) / CHECKPOINT, {}, TrainState(seconds=spent), "recipe")
    assert paths.remaining_time(CAPTIONER) == expected


def test_a_damaged_checkpoint_fails_its_run(config, paths):
    paths.path(CAPTIONER).mkdir(parents=True)
    (paths.path(CAPTIONER) / CHECKPOINT).write_bytes(b"nothing")
    [outcome] = train(RunPaths(replace(config, overrides=("cross_entropy:max_seconds=60",))), [CAPTIONER])
    assert "checkpoint.safetensors is damaged" in outcome.error


def simulate_oom(folder, monkeypatch, run, *, forever):
    """Let processes that train ``run`` exit as if out of GPU memory, once or always."""
    script = folder / "python"
    condition = "true" if forever else f"[ ! -e {folder}/attempts ]"
    script.write_text(
        f"#!/bin/sh\n"
        f'case "$*" in *out=*/{run.name}*) if {condition}; then\n'
        f"  echo x >> {folder}/attempts; echo 'sct: OutOfMemoryError: CUDA out of memory.' >&2; exit 1; fi;;\n"
        f"esac\n"
        f'exec {sys.executable} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


def test_out_of_memory_next_to_others_is_retried_after_them(tmp_path, monkeypatch, paths):
    simulate_oom(tmp_path, monkeypatch, CAPTIONER, forever=False)
    lines = []
    outcomes = train(paths, [CAPTIONER, SORTER], jobs=2, log=lines.append)
    assert outcomes == [Outcome(SORTER), Outcome(CAPTIONER)]
    assert lines[1:] == [f"{CAPTIONER.name} is out of GPU memory next to other runs: queued again"]
    assert paths.is_finished(CAPTIONER)


@pytest.mark.parametrize(("others", "attempts"), [([], 1), ([SORTER], 2)], ids=["alone", "next to another"])
def test_out_of_memory_alone_fails(others, attempts, tmp_path, monkeypatch, paths):
    simulate_oom(tmp_path, monkeypatch, CAPTIONER, forever=True)
    *before, last = train(paths, [CAPTIONER, *others], jobs=2)
    assert last == Outcome(CAPTIONER, "sct train exited with code 1: sct: OutOfMemoryError: CUDA out of memory.")
    assert before == [Outcome(run) for run in others]
    assert (tmp_path / "attempts").read_text() == "x\n" * attempts


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_signals_interrupt_like_ctrl_c(number, paths):
    before = signal.signal(number, signal.SIG_DFL)  # nohup may have it ignored
    try:
        with train_missing(paths, [SORTER], jobs=1, dataset_sha256="data", log=discard) as outcomes:
            next(outcomes)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_an_ignored_signal_stays_ignored(paths):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with train_missing(paths, [SORTER], jobs=1, dataset_sha256="data", log=discard) as outcomes:
            next(outcomes)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("report", "time_budget", "is_final"),
    [
        pytest.param({"finished": True, "seconds": 1.0}, 0.0, True, id="finished"),
        pytest.param({"finished": False, "seconds": 9.0}, 0.0, False, id="interrupted"),
        pytest.param({"finished": False, "seconds": 9.0}, 8.0, True, id="time used up"),
        pytest.param({"finished": False, "seconds": 5.0}, 8.0, False, id="interrupted before its time was used up"),
    ],
)
def test_final_report(report, time_budget, is_final):
    content = final_report(report, time_budget, "data")
    assert (content is not None) == is_final
    if content is not None:
        assert json.loads(content) == {**report, "max_seconds": time_budget, "dataset": "data"}
