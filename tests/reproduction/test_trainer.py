"""Runs as processes: several at once, stopped in the middle, gone on with."""

import time
from contextlib import closing
from dataclasses import replace

import pytest
from made_rows import RECIPES
from tiny_data import SMALL, tiny_dataset

from sct.atomic import lock
from sct.reproduction.plan import planned_run
from sct.reproduction.published import RowKey
from sct.reproduction.runs import LOG, REPORT, Workplace, saved_report
from sct.reproduction.training import Outcome, Trainer
from sct.training.run_folder import LOCK, RECIPE

SORTER = planned_run(RowKey("coco", "class_order", ""))
WORDS = planned_run(RowKey("coco", "ours", "words"))
ENDLESS = ("words:max_steps=0", "words:max_epochs=1000000", "words:patience=0")


@pytest.fixture
def place(tmp_path):
    data = tiny_dataset(tmp_path / "tiny")
    settings = (*SMALL, "sorter:holdout=0.3")
    return Workplace(data=data, runs=tmp_path / "runs", recipes=RECIPES, settings=settings, accelerator="cpu")


def test_nothing_to_train_ends_at_once(place):
    assert list(Trainer(place, 2).train([])) == []


def test_what_is_under_way_is_stopped_and_goes_on_later(place):
    endless = replace(place, settings=(*place.settings, *ENDLESS))
    with closing(Trainer(endless, 2).train([[SORTER], [WORDS]])) as outcomes:
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
    assert list(Trainer(place, 1).train([[WORDS]])) == [Outcome(WORDS)]
    assert place.is_done(WORDS)
    assert "max_steps = 2\n" in (folder / RECIPE).read_text()


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
    assert (saved_report(report, allowed) is not None) == is_kept
