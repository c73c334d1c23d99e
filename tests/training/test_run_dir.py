"""A run's folder: who may write there, what it goes on from, and which bundles stay."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sct.errors import InputError
from sct.training.captioner.config import DeviceSettings, Objective, Recipe, load_recipe
from sct.training.checkpoint import TrainState, load_checkpoint
from sct.training.metric_logger import read_journal
from sct.training.run_dir import BEST, BUNDLES, CHECKPOINT, LAST, LOCK, RECIPE, RunDir

BEGUN = Recipe(data="d", out="o", start="x", objective=Objective(stage="cider", samples=5, baseline="others"))


def _write_text(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(folder.name)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _save(run: RunDir, step: int, *, best: str = "", last: str = "", journal_bytes: int = 0) -> None:
    facts = TrainState(step=step, best_bundle=best, last_bundle=last, journal_bytes=journal_bytes)
    run.save_checkpoint({"weight": torch.full((3,), float(step))}, facts)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs" / "mine"


def test_a_run_begins_with_its_recipe(path):
    with RunDir.create(path, BEGUN) as run:
        assert run.checkpoint is None
        assert run.writes
        assert _names(path) == [LOCK, RECIPE]
        assert load_recipe(path / RECIPE) == BEGUN


def test_the_newest_and_the_best_bundle_stay(path):
    with RunDir.create(path, BEGUN) as run:
        first = run.write_bundle(10, _write_text)
        assert first == "step-00000010"
        assert not os.path.lexists(path / LAST), "no checkpoint names it yet"
        _save(run, 10, best=first, last=first)
        second = run.write_bundle(20, _write_text)
        _save(run, 20, best=first, last=second)
        assert (path / BEST / "config.toml").read_text() == first
        assert (path / LAST / "config.toml").read_text() == second
        third = run.write_bundle(30, _write_text)
        _save(run, 30, best=first, last=third)
        assert _names(path / BUNDLES) == [first, third]
        _save(run, 35, best=third, last=third)
        assert _names(path / BUNDLES) == [third]
        assert (path / BEST).readlink() == Path(BUNDLES) / third
    assert _names(path) == [LOCK, BEST, BUNDLES, CHECKPOINT, LAST, RECIPE]


def test_the_links_still_lead_somewhere_when_the_folder_has_moved(path):
    with RunDir.create(path, BEGUN) as run:
        _save(run, 1, last=run.write_bundle(1, _write_text))
    path.rename(path.with_name("moved"))
    assert (path.with_name("moved") / LAST / "config.toml").read_text() == "step-00000001"


def test_a_bundle_of_the_same_step_gets_a_name_of_its_own(path):
    with RunDir.create(path, BEGUN) as run:
        names = [run.write_bundle(1, _write_text) for _ in range(3)]
    assert names == ["step-00000001", "step-00000001-2", "step-00000001-3"]


def test_a_run_goes_on_from_its_checkpoint(path):
    with RunDir.create(path, BEGUN) as run, run.journal(tensorboard=False) as journal:
        journal.record("train", 1, {"loss": 1.0})
        _save(run, 1, journal_bytes=journal.settle())
        journal.record("train", 2, {"loss": 1.0})
    with RunDir.resume(path, BEGUN) as run, run.journal(tensorboard=False) as journal:
        assert run.checkpoint is not None
        assert run.checkpoint.facts.step == 1
        assert run.checkpoint.tensors["weight"].tolist() == [1, 1, 1]
        journal.record("train", 2, {"loss": 3.0})
    assert [(line["step"], line["loss"]) for line in read_journal(path)] == [(1, 1.0), (2, 3.0)]


def test_resume_puts_right_what_a_kill_left(path):
    with RunDir.create(path, BEGUN) as run:
        first, second = run.write_bundle(1, _write_text), run.write_bundle(2, _write_text)
        _save(run, 2, best=first, last=second)
    # As if killed in the middle of everything at once.
    (path / BEST).unlink()
    (path / LAST).unlink()
    (path / LAST).symlink_to(f"{BUNDLES}/{first}")
    (path / f".{BEST}.part").symlink_to("nowhere")
    (path / f".{CHECKPOINT}.part").write_bytes(b"half")
    (path / f".{RECIPE}.part").write_bytes(b"half")
    _write_text(path / BUNDLES / "step-00000003")
    _write_text(path / BUNDLES / ".step-00000004.part")
    with RunDir.resume(path, BEGUN) as run:
        assert run.checkpoint.facts.step == 2
    assert _names(path) == [LOCK, BEST, BUNDLES, CHECKPOINT, LAST, RECIPE]
    assert _names(path / BUNDLES) == [first, second]
    assert [(path / link).readlink().name for link in (BEST, LAST)] == [first, second]


@pytest.mark.parametrize("left", [(), (LOCK,), (LOCK, f".{RECIPE}.part")], ids=["nothing", "a lock", "half a recipe"])
def test_a_run_killed_before_its_first_word_begins_anew(path, left):
    path.mkdir(parents=True)
    for name in left:
        (path / name).touch()
    with RunDir.resume(path, BEGUN) as run:
        assert run.checkpoint is None
    assert _names(path) == [LOCK, RECIPE]


def test_a_run_killed_before_its_first_checkpoint_begins_anew(path):
    with RunDir.create(path, BEGUN) as run, run.journal(tensorboard=False) as journal:
        journal.record("train", 1, {"loss": 1.0})
        run.write_bundle(1, _write_text)
    with RunDir.resume(path, BEGUN) as run, run.journal(tensorboard=False):
        assert run.checkpoint is None
        assert _names(path / BUNDLES) == []
    assert list(read_journal(path)) == []


def test_how_far_and_on_what_a_run_goes_may_change(path):
    with RunDir.create(path, BEGUN) as run:
        _save(run, 1)
    further = replace(BEGUN, out="p", max_epochs=99, max_seconds=5.0, patience=1, device=DeviceSettings(devices=2))
    with RunDir.resume(path, further) as run:
        assert run.checkpoint is not None
    assert load_recipe(path / RECIPE) == further


def test_another_recipe_is_refused(path):
    RunDir.create(path, BEGUN).close()
    other = replace(BEGUN, seed=5, objective=replace(BEGUN.objective, samples=2, shuffle=False))
    with pytest.raises(InputError) as caught:
        RunDir.resume(path, other)
    assert str(caught.value) == (
        f"{path} was begun with seed=1234 objective.samples=5 objective.shuffle=true, and now came seed=5 "
        "objective.samples=2 objective.shuffle=false: give seed=1234 objective.samples=5 objective.shuffle=true, "
        "or begin another run with out=DIR"
    )
    assert load_recipe(path / RECIPE) == BEGUN
    RunDir.resume(path, BEGUN).close()  # nobody holds it


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda _: None, "does not exist, so there is no run to go on with", id="no folder"),
        pytest.param(lambda path: path.touch(), "does not exist", id="a file"),
        pytest.param(_write_text, "holds config.toml, but no recipe.toml", id="another's folder"),
    ],
)
def test_there_is_no_run_to_go_on_with(tmp_path, make, message):
    make(tmp_path / "run")
    with pytest.raises(InputError, match=message):
        RunDir.resume(tmp_path / "run", BEGUN)


def test_a_damaged_checkpoint_is_refused(path):
    with RunDir.create(path, BEGUN) as run:
        _save(run, 1)
    (path / CHECKPOINT).write_bytes(b"")
    with pytest.raises(InputError, match="is damaged"):
        RunDir.resume(path, BEGUN)


def test_a_removed_checkpoint_does_not_cost_the_bundles(path):
    with RunDir.create(path, BEGUN) as run:
        _save(run, 1, last=run.write_bundle(1, _write_text))
    (path / CHECKPOINT).unlink()
    with pytest.raises(InputError, match=r"has bundles, but its checkpoint\.safetensors was removed"):
        RunDir.resume(path, BEGUN)
    assert (path / LAST / "config.toml").exists()


def test_a_removed_bundle_is_missed_aloud(path, caplog):
    with RunDir.create(path, BEGUN) as run:
        first, second = run.write_bundle(1, _write_text), run.write_bundle(2, _write_text)
        _save(run, 2, best=first, last=second)
    (path / BUNDLES / first / "config.toml").unlink()
    (path / BUNDLES / first).rmdir()
    with RunDir.resume(path, BEGUN) as run:
        assert (run.checkpoint.facts.best_bundle, run.checkpoint.facts.last_bundle) == ("", second)
    assert f"{first} was removed: going on without it" in caplog.text
    assert not os.path.lexists(path / BEST)
    assert (path / LAST).exists()


def test_a_run_that_came_to_nothing_is_written_over(path):
    with RunDir.create(path, replace(BEGUN, data="misspelt")) as run:
        run.journal().close()
    RunDir.create(path, BEGUN).close()
    assert load_recipe(path / RECIPE) == BEGUN


@pytest.mark.parametrize("name", [CHECKPOINT, "metrics.jsonl", BUNDLES, BEST])
def test_a_folder_that_holds_a_run_is_not_written_over(path, name):
    path.mkdir(parents=True)
    (path / name).write_text("x")
    with pytest.raises(
        InputError, match=rf"holds a run already \({name}\): go on with --resume, or name another by out="
    ):
        RunDir.create(path, BEGUN)
    (path / name).unlink()
    RunDir.create(path, BEGUN).close()  # nobody holds it


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file: name a folder"):
        RunDir.create(tmp_path / "file", BEGUN)


@pytest.mark.skipif(sys.platform == "win32", reason="two writers are not kept apart there")
@pytest.mark.parametrize("verb", ["create", "resume"])
def test_two_processes_cannot_train_in_one_folder(path, verb):
    code = f"""
import sys
from pathlib import Path
from sct.errors import InputError
from sct.training.captioner.config import Recipe
from sct.training.run_dir import RunDir
try:
    RunDir.{verb}(Path(sys.argv[1]), Recipe(data="d", out="o"))
except InputError as error:
    print(error)
"""
    with RunDir.create(path, BEGUN):
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "by another process" in done.stdout


def test_a_process_that_does_not_write_only_reads(path):
    with RunDir.create(path, BEGUN, writes=False) as run:
        assert not run.writes
        assert run.write_bundle(1, _write_text) == "step-00000001"
        _save(run, 1)
        with run.journal() as journal:
            journal.record("train", 1, {"loss": 1.0})
    assert not path.exists()
    with RunDir.create(path, BEGUN) as run:
        _save(run, 1)
        with RunDir.resume(path, BEGUN, writes=False) as reader:  # beside the one that writes
            assert reader.checkpoint.facts.step == 1
            _save(reader, 2)
    assert load_checkpoint(path / CHECKPOINT).facts.step == 1
