"""Run directories: locking, resuming, and which bundles are kept."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sct.errors import InputError
from sct.training.captioner.config import CaptionerRecipe, DeviceConfig
from sct.training.captioner.objective_config import ObjectiveConfig
from sct.training.checkpoint import TrainState, load_checkpoint
from sct.training.metric_logger import read_metrics
from sct.training.run_dir import BEST, BUNDLES, CHECKPOINT, LAST, LOCK, RECIPE, RunDir, RunStatus

RECIPE_OF_RUN = CaptionerRecipe(
    data="d", out="o", start="x", objective=ObjectiveConfig(stage="cider", num_samples=5, baseline="leave_one_out")
)


def _write_text(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(folder.name)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _save(run: RunDir, step: int, *, best: str = "", last: str = "", metrics_bytes: int = 0) -> None:
    state = TrainState(step=step, best_bundle=best, last_bundle=last, metrics_bytes=metrics_bytes)
    run.save_checkpoint({"weight": torch.full((3,), float(step))}, state)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs" / "mine"


def test_create_writes_the_recipe(path):
    with RunDir.create(path, RECIPE_OF_RUN) as run:
        assert run.checkpoint is None
        assert run.writes
        assert _names(path) == [LOCK, RECIPE]
        assert CaptionerRecipe.load(path / RECIPE) == RECIPE_OF_RUN


def test_best_and_last_bundles_are_kept(path):
    with RunDir.create(path, RECIPE_OF_RUN) as run:
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


def test_links_are_relative(path):
    with RunDir.create(path, RECIPE_OF_RUN) as run:
        _save(run, 1, last=run.write_bundle(1, _write_text))
    path.rename(path.with_name("moved"))
    assert (path.with_name("moved") / LAST / "config.toml").read_text() == "step-00000001"


def test_bundles_of_the_same_step_have_distinct_names(path):
    with RunDir.create(path, RECIPE_OF_RUN) as run:
        names = [run.write_bundle(1, _write_text) for _ in range(3)]
    assert names == ["step-00000001", "step-00000001-2", "step-00000001-3"]


def test_resume_continues_from_the_checkpoint(path):
    with RunDir.create(path, RECIPE_OF_RUN) as run, run.metric_logger(tensorboard=False) as metrics:
        metrics.log("train", 1, {"loss": 1.0})
        _save(run, 1, metrics_bytes=metrics.flush())
        metrics.log("train", 2, {"loss": 1.0})
    with RunDir.resume(path, RECIPE_OF_RUN) as run, run.metric_logger(tensorboard=False) as metrics:
        assert run.checkpoint is not None
        assert run.checkpoint.state.step == 1
        assert run.checkpoint.tensors["weight"].tolist() == [1, 1, 1]
        metrics.log("train", 2, {"loss": 3.0})
    assert [(line["step"], line["loss"]) for line in read_metrics(path)] == [(1, 1.0), (2, 3.0)]


def test_resume_repairs_links_and_removes_partial_files(path):
    with RunDir.create(path, RECIPE_OF_RUN) as run:
        first, second = run.write_bundle(1, _write_text), run.write_bundle(2, _write_text)
        _save(run, 2, best=first, last=second)
    # As if killed during every write at once.
    (path / BEST).unlink()
    (path / LAST).unlink()
    (path / LAST).symlink_to(f"{BUNDLES}/{first}")
    (path / f".{BEST}.part").symlink_to("nowhere")
    (path / f".{CHECKPOINT}.part").write_bytes(b"half")
    (path / f".{RECIPE}.part").write_bytes(b"half")
    _write_text(path / BUNDLES / "step-00000003")
    _write_text(path / BUNDLES / ".step-00000004.part")
    with RunDir.resume(path, RECIPE_OF_RUN) as run:
        assert run.checkpoint.state.step == 2
    assert _names(path) == [LOCK, BEST, BUNDLES, CHECKPOINT, LAST, RECIPE]
    assert _names(path / BUNDLES) == [first, second]
    assert [(path / link).readlink().name for link in (BEST, LAST)] == [first, second]


@pytest.mark.parametrize("left", [(), (LOCK,), (LOCK, f".{RECIPE}.part")], ids=["nothing", "lock", "partial recipe"])
def test_resume_of_a_run_killed_before_its_first_write(path, left):
    path.mkdir(parents=True)
    for name in left:
        (path / name).touch()
    with RunDir.resume(path, RECIPE_OF_RUN) as run:
        assert run.checkpoint is None
    assert _names(path) == [LOCK, RECIPE]


def test_resume_of_a_run_killed_before_its_first_checkpoint(path):
    with RunDir.create(path, RECIPE_OF_RUN) as run, run.metric_logger(tensorboard=False) as metrics:
        metrics.log("train", 1, {"loss": 1.0})
        run.write_bundle(1, _write_text)
    with RunDir.resume(path, RECIPE_OF_RUN) as run, run.metric_logger(tensorboard=False):
        assert run.checkpoint is None
        assert _names(path / BUNDLES) == []
    assert list(read_metrics(path)) == []


def test_limits_and_devices_may_change_on_resume(path):
    with RunDir.create(path, RECIPE_OF_RUN) as run:
        _save(run, 1)
    changed = replace(
        RECIPE_OF_RUN, out="p", max_epochs=99, max_seconds=5.0, patience=1, device=DeviceConfig(devices=2)
    )
    with RunDir.resume(path, changed) as run:
        assert run.checkpoint is not None
    assert CaptionerRecipe.load(path / RECIPE) == changed


def test_resume_rejects_another_recipe(path):
    RunDir.create(path, RECIPE_OF_RUN).close()
    other = replace(RECIPE_OF_RUN, seed=5, objective=replace(RECIPE_OF_RUN.objective, num_samples=2, shuffle=False))
    with pytest.raises(InputError) as caught:
        RunDir.resume(path, other)
    assert str(caught.value) == (
        f"{path} was started with seed=1234 objective.num_samples=5 objective.shuffle=true, got seed=5 "
        "objective.num_samples=2 objective.shuffle=false: give seed=1234 objective.num_samples=5 "
        "objective.shuffle=true, or start another run with out=DIR"
    )
    assert CaptionerRecipe.load(path / RECIPE) == RECIPE_OF_RUN
    RunDir.resume(path, RECIPE_OF_RUN).close()  # not locked


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda _: None, "does not exist, so there is no run to resume", id="missing"),
        pytest.param(lambda path: path.touch(), "does not exist", id="file"),
        pytest.param(_write_text, "holds config.toml, but no recipe.toml", id="not a run"),
    ],
)
def test_resume_needs_a_run(tmp_path, make, message):
    make(tmp_path / "run")
    with pytest.raises(InputError, match=message):
        RunDir.resume(tmp_path / "run", RECIPE_OF_RUN)


def test_resume_rejects_a_damaged_checkpoint(path):
    with RunDir.create(path, RECIPE_OF_RUN) as run:
        _save(run, 1)
    (path / CHECKPOINT).write_bytes(b"")
    with pytest.raises(InputError, match="is damaged"):
        RunDir.resume(path, RECIPE_OF_RUN)


def test_resume_without_checkpoint_keeps_the_bundles(path):
    with RunDir.create(path, RECIPE_OF_RUN) as run:
        _save(run, 1, last=run.write_bundle(1, _write_text))
    (path / CHECKPOINT).unlink()
    with pytest.raises(InputError, match=r"has bundles, but its checkpoint\.safetensors was removed"):
        RunDir.resume(path, RECIPE_OF_RUN)
    assert (path / LAST / "config.toml").exists()


def test_resume_warns_about_a_removed_bundle(path, caplog):
    with RunDir.create(path, RECIPE_OF_RUN) as run:
        first, second = run.write_bundle(1, _write_text), run.write_bundle(2, _write_text)
        _save(run, 2, best=first, last=second)
    (path / BUNDLES / first / "config.toml").unlink()
    (path / BUNDLES / first).rmdir()
    with RunDir.resume(path, RECIPE_OF_RUN) as run:
        assert (run.checkpoint.state.best_bundle, run.checkpoint.state.last_bundle) == ("", second)
    assert f"{first} was removed: continuing without it" in caplog.text
    assert not os.path.lexists(path / BEST)
    assert (path / LAST).exists()


def test_create_overwrites_a_run_without_results(path):
    with RunDir.create(path, replace(RECIPE_OF_RUN, data="misspelt")) as run:
        run.metric_logger().close()
    RunDir.create(path, RECIPE_OF_RUN).close()
    assert CaptionerRecipe.load(path / RECIPE) == RECIPE_OF_RUN


@pytest.mark.parametrize("name", [CHECKPOINT, "metrics.jsonl", BUNDLES, BEST])
def test_create_rejects_a_directory_with_a_run(path, name):
    path.mkdir(parents=True)
    (path / name).write_text("x")
    with pytest.raises(
        InputError,
        match=rf"holds a run already \({name}\): resume it with --resume, or name another directory with out=",
    ):
        RunDir.create(path, RECIPE_OF_RUN)
    (path / name).unlink()
    RunDir.create(path, RECIPE_OF_RUN).close()  # not locked


def test_create_rejects_a_file(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file: expected a folder"):
        RunDir.create(tmp_path / "file", RECIPE_OF_RUN)


@pytest.mark.skipif(sys.platform == "win32", reason="no file locks")
@pytest.mark.parametrize("method", ["create", "resume"])
def test_a_second_process_is_locked_out(path, method):
    code = f"""
import sys
from pathlib import Path
from sct.errors import InputError
from sct.training.captioner.config import CaptionerRecipe
from sct.training.run_dir import RunDir
try:
    RunDir.{method}(Path(sys.argv[1]), CaptionerRecipe(data="d", out="o"))
except InputError as error:
    print(error)
"""
    with RunDir.create(path, RECIPE_OF_RUN):
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "by another process" in done.stdout


def test_ranks_that_do_not_write_only_read(path):
    with RunDir.create(path, RECIPE_OF_RUN, writes=False) as run:
        assert not run.writes
        assert run.write_bundle(1, _write_text) == "step-00000001"
        _save(run, 1)
        with run.metric_logger() as metrics:
            metrics.log("train", 1, {"loss": 1.0})
    assert not path.exists()
    with RunDir.create(path, RECIPE_OF_RUN) as run:
        _save(run, 1)
        with RunDir.resume(path, RECIPE_OF_RUN, writes=False) as reader:  # while rank 0 holds the lock
            assert reader.checkpoint.state.step == 1
            _save(reader, 2)
    assert load_checkpoint(path / CHECKPOINT).state.step == 1


def test_status(path):
    assert RunDir.status(path) == RunStatus(is_started=False, has_best=False, seconds=0.0)
    with RunDir.create(path, RECIPE_OF_RUN) as run, run.metric_logger(tensorboard=False) as metrics:
        assert not RunDir.status(path).is_started
        metrics.log("train", 1, {"loss": 1.0})
        assert RunDir.status(path) == RunStatus(is_started=True, has_best=False, seconds=0.0)
        name = run.write_bundle(1, _write_text)
        run.save_checkpoint({}, TrainState(step=1, seconds=2.5, best_bundle=name, last_bundle=name))
    assert RunDir.status(path) == RunStatus(is_started=True, has_best=True, seconds=2.5)


def test_outputs_of_a_trainer_count_as_results(path):
    path.mkdir(parents=True)
    (path / "vision.safetensors").write_text("x")
    with pytest.raises(InputError, match=r"holds a run already \(vision.safetensors\)"):
        RunDir.create(path, RECIPE_OF_RUN, outputs=("vision.safetensors",))
