"""Runs as processes: several at once, stopped in the middle, gone on with."""

import json
import signal
import sys
import time
from contextlib import closing
from dataclasses import replace

import pytest

from sct.reproduction.plan import planned_run
from sct.reproduction.published import RowKey
from sct.reproduction.runs import LOG, REPORT, Workplace, saved_report
from sct.reproduction.training import Outcome, Trainer
from sct.storage.atomic import lock
from sct.training.captioner.config import load_recipe
from sct.training.checkpoint import TrainState, load_checkpoint, save_checkpoint
from sct.training.run_dir import CHECKPOINT, LOCK, RECIPE
from tests.reproduction.made_rows import RECIPES
from tests.reproduction.tiny_data import SMALL, silent, tiny_dataset

SORTER = planned_run(RowKey("coco", "class_order", ""))
WORDS = planned_run(RowKey("coco", "ours", "words"))
ENDLESS = ("words:max_steps=0", "words:max_epochs=1000000", "words:patience=0")


@pytest.fixture
def place(tmp_path):
    data = tiny_dataset(tmp_path / "tiny")
    settings = (*SMALL, "sorter:holdout=0.3")
    return Workplace(data=data, runs=tmp_path / "runs", recipes=RECIPES, settings=settings, accelerator="cpu")


def test_nothing_to_train_ends_at_once(place):
    assert list(Trainer(place, 2, "data", silent).train([])) == []


def test_what_is_under_way_is_stopped_and_goes_on_later(place):
    endless = replace(place, settings=(*place.settings, *ENDLESS))
    with closing(Trainer(endless, 2, "data", silent).train([[SORTER], [WORDS]])) as outcomes:
        assert next(outcomes) == Outcome(SORTER)
        while not place.is_begun(WORDS):
            time.sleep(0.05)
    folder = place.folder(WORDS)
    assert (folder / LOG).exists()
    assert not (folder / REPORT).exists()
    assert not place.is_done(WORDS), "though it may have a best bundle"
    with (folder / LOCK).open("ab") as held:
        lock(held, folder)  # nobody trains there any more
    # Steps may be limited otherwise when a run goes on, and this one has taken more than two.
    spent = load_checkpoint(folder / CHECKPOINT).facts.seconds
    timed = replace(place, settings=(*place.settings, "words:max_seconds=1000"))
    assert list(Trainer(timed, 1, "data", silent).train([[WORDS]])) == [Outcome(WORDS)]
    assert place.is_done(WORDS)
    made = load_recipe(folder / RECIPE)
    assert (made.max_steps, made.max_seconds) == (2, 1000 - spent), "it has what is left of its time"
    assert " max_seconds=1000" in place.command(WORDS), "but took all of it"
    assert json.loads((folder / REPORT).read_text())["dataset"] == "data"


@pytest.mark.parametrize(
    ("settings", "spent", "words"),
    [
        pytest.param((), 50.0, [], id="as long as it takes"),
        pytest.param(("words:max_seconds=60",), None, [], id="killed before its first checkpoint"),
        pytest.param(("words:max_seconds=60",), 50.0, ["max_seconds=10.0"], id="some time is left"),
        pytest.param(("words:max_seconds=60",), 60.0, ["max_seconds=0.001"], id="none is left, which is not no limit"),
    ],
)
def test_a_run_that_goes_on_has_the_time_that_is_left(settings, spent, words, place):
    place = replace(place, settings=settings)
    if spent is not None:
        place.folder(WORDS).mkdir(parents=True)
        save_checkpoint(place.folder(WORDS) / CHECKPOINT, {}, TrainState(seconds=spent), "recipe")
    assert place.time_left(WORDS) == words


def test_a_checkpoint_that_is_damaged_is_a_fault_of_its_run(place):
    place.folder(WORDS).mkdir(parents=True)
    (place.folder(WORDS) / CHECKPOINT).write_bytes(b"nothing")
    timed = replace(place, settings=("words:max_seconds=60",))
    [outcome] = Trainer(timed, 1, "data", silent).train([[WORDS]])
    assert "checkpoint.safetensors is damaged" in outcome.fault


def _python_without_memory(folder, monkeypatch, run, *, forever):
    """Let processes that train ``run`` end as one does for which its GPU has no memory, once or always."""
    script = folder / "python"
    script.write_text(
        f"#!/bin/sh\n"
        f'case "$*" in *out=*/{run.name}*) if {"true" if forever else f"[ ! -e {folder}/starved ]"}; then\n'
        f"  echo x >> {folder}/starved; echo 'sct: OutOfMemoryError: CUDA out of memory.' >&2; exit 1; fi;;\n"
        f"esac\n"
        f'exec {sys.executable} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


def test_a_run_without_memory_beside_others_is_trained_after_them(tmp_path, monkeypatch, place):
    _python_without_memory(tmp_path, monkeypatch, WORDS, forever=False)
    said = []
    outcomes = list(Trainer(place, 2, "data", said.append).train([[WORDS], [SORTER]]))
    assert outcomes == [Outcome(SORTER), Outcome(WORDS)]
    assert said == [f"{WORDS.name} finds no memory beside the others, and is left to them"]
    assert place.is_done(WORDS)


@pytest.mark.parametrize(("others", "tries"), [([], 1), ([[SORTER]], 2)], ids=["alone", "beside another"])
def test_a_run_without_memory_when_it_is_alone_has_failed(others, tries, tmp_path, monkeypatch, place):
    _python_without_memory(tmp_path, monkeypatch, WORDS, forever=True)
    *before, last = Trainer(place, 2, "data", silent).train([[WORDS], *others])
    assert last == Outcome(WORDS, "sct train ended with 1: sct: OutOfMemoryError: CUDA out of memory.")
    assert before == [Outcome(run) for [run] in others]
    assert (tmp_path / "starved").read_text() == "x\n" * tries


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_signals_stop_all_as_ctrl_c_does(number, place):
    before = signal.signal(number, signal.SIG_DFL)  # whoever runs tests with nohup has one of them ignored
    try:
        with closing(Trainer(place, 1, "data", silent).train([[SORTER]])) as outcomes:
            next(outcomes)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_ignored_stays_so(place):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with closing(Trainer(place, 1, "data", silent).train([[SORTER]])) as outcomes:
            next(outcomes)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("report", "allowed", "is_kept"),
    [
        pytest.param({"finished": True, "seconds": 1.0}, 0.0, True, id="at its end"),
        pytest.param({"finished": False, "seconds": 9.0}, 0.0, False, id="asked to stop"),
        pytest.param({"finished": False, "seconds": 9.0}, 8.0, True, id="all of its time used"),
        pytest.param({"finished": False, "seconds": 5.0}, 8.0, False, id="asked to stop before its time"),
    ],
)
def test_a_run_is_done_at_its_end_or_when_its_time_is_used(report, allowed, is_kept):
    kept = saved_report(report, allowed, "data")
    assert (kept is not None) == is_kept
    if kept is not None:
        assert json.loads(kept) == {**report, "max_seconds": allowed, "dataset": "data"}
