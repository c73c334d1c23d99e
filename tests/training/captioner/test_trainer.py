import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from sct.captioner.bundle import add_sorter, load_bundle, save_bundle
from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.sorting.baselines import ClassOrder
from sct.sorting.sorter import ControlSorter
from sct.training.captioner.config import CaptionerRecipe, OptimizerConfig
from sct.training.captioner.dataloader import control_noise, step_noise
from sct.training.captioner.objectives import REWARDS
from sct.training.captioner.permuted_controls import num_draws
from sct.training.captioner.setup import build_training
from sct.training.captioner.trainer import train_captioner
from sct.training.checkpoint import load_checkpoint
from sct.training.metric_logger import read_metrics
from tests.factories import make_noun_dataset, make_recipe

STAGES = ["cross_entropy", "cider", "cider_and_nw"]
PERMUTED = {
    "stage": "cider_and_nw",
    "permuted_share": 0.5,
    "named_set_weight": 2.0,
    "unsupported_noun_penalty": 0.3,
    "num_samples": 3,
    "baseline": "leave_one_out",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return make_noun_dataset(tmp_path_factory.mktemp("data") / "tiny")


@pytest.fixture(scope="module")
def pretrained(data, tmp_path_factory) -> Path:
    """A bundle that self-critical training can start from."""
    out = tmp_path_factory.mktemp("pretrained") / "run"
    train_captioner(make_recipe(data, out, max_steps=55, max_epochs=99))
    return out / "best"


def read_losses(out: Path) -> dict[int, float]:
    return {line["step"]: line["loss"] for line in read_metrics(out) if line["kind"] == "train"}


def mean_loss(out: Path) -> float:
    """Mean over all steps; how many lines of the log they are in depends on the speed of the machine."""
    losses = read_losses(out)
    steps = sorted(losses)
    return sum(losses[last] * (last - first) for first, last in pairwise([0, *steps])) / steps[-1]


def read_tensors(out: Path) -> dict[str, torch.Tensor]:
    return dict(load_checkpoint(out / "checkpoint.safetensors").tensors)


def assert_same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


def mean_reward(recipe: CaptionerRecipe, start: Path) -> float:
    """Mean reward of sampled captions of all training examples."""
    recipe = replace(recipe, start=str(start), objective=replace(recipe.objective, baseline="greedy", num_samples=20))
    parts = build_training(recipe, torch.device("cpu"), torch.float32)
    noise = step_noise(1, (len(parts.examples), 20, recipe.examples.max_length, 2), seed=1)
    orders = control_noise(1, (len(parts.examples), num_draws(parts.loader.max_slots)), seed=1)
    terms = parts.objective(parts.bundle.model, torch.arange(len(parts.examples)), noise, orders).terms
    return sum(float(terms[name]) for name in REWARDS if name in terms)


def test_cross_entropy_training_learns(data, tmp_path):
    report = train_captioner(make_recipe(data, tmp_path / "run", max_steps=150, max_epochs=100, validate_every=50))
    lines = [line for line in read_metrics(tmp_path / "run") if line["kind"] == "train"]
    assert report.finished
    assert report.step == 150
    assert lines[-1]["words"] < 1.2  # from log 13 = 2.6
    assert report.best_score is not None
    assert report.best_score > 100
    bundle = load_bundle(tmp_path / "run" / "best")
    assert bundle.encoder is not None
    assert bundle.nouns is not None
    assert set(json.loads((tmp_path / "run" / "best" / "vocabulary.json").read_text())["words"]) > {"dog", "near"}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"stage": "cider"}, id="cider"),
        pytest.param({"stage": "cider_and_nw"}, id="cider and nw"),
        pytest.param({"stage": "cider", "num_samples": 3, "baseline": "leave_one_out"}, id="leave one out"),
        pytest.param({"stage": "cider", "baseline": "epoch_greedy"}, id="epoch greedy"),
        pytest.param(PERMUTED, id="permuted controls"),
    ],
)
def test_self_critical_training_raises_the_reward(data, pretrained, tmp_path, changes):
    settings = OptimizerConfig(learning_rate=5e-3, decay_every=0)
    recipe = make_recipe(
        data, tmp_path / "run", start=pretrained, max_steps=80, max_epochs=99, optimizer=settings, **changes
    )
    train_captioner(recipe)
    assert mean_reward(recipe, tmp_path / "run" / "last") > mean_reward(recipe, pretrained) > 0


@pytest.mark.parametrize(
    "changes",
    [*({"stage": stage} for stage in STAGES), {"stage": "cider", "baseline": "epoch_greedy"}, PERMUTED],
    ids=[*STAGES, "epoch greedy", "permuted controls"],
)
def test_resumed_run_equals_an_uninterrupted_one(data, pretrained, tmp_path, changes):
    start = None if changes["stage"] == "cross_entropy" else pretrained
    whole = make_recipe(data, tmp_path / "whole", start=start, max_steps=9, **changes)
    train_captioner(whole)
    in_parts = replace(whole, out=str(tmp_path / "parts"))
    for number, steps in enumerate((2, 5, 9)):
        train_captioner(replace(in_parts, max_steps=steps), resume=number > 0)
    assert_same(read_tensors(tmp_path / "whole"), read_tensors(tmp_path / "parts"))


def test_logged_losses_of_a_resumed_run_cover_whole_intervals(data, tmp_path, monkeypatch):
    """A run that stops between two log lines goes on with the losses since the first."""
    monkeypatch.setattr("sct.training.captioner.trainer._LOG_EVERY_SECONDS", float("inf"))
    recipe = make_recipe(data, tmp_path / "whole", max_steps=9, max_epochs=99)
    train_captioner(recipe)
    in_parts = replace(recipe, out=str(tmp_path / "parts"))
    for number in range(9):  # stops after each step, most of them inside an interval
        train_captioner(replace(in_parts, max_seconds=1e-9 if number < 8 else 0.0), resume=number > 0)

    def losses(name):
        lines = [line for line in read_metrics(tmp_path / name) if line["kind"] == "train"]
        return [{key: line[key] for key in ("step", "loss", "words", "shifts")} for line in lines]

    assert len(losses("whole")) > 1
    assert losses("parts") == losses("whole")


def test_resuming_a_finished_run_changes_nothing(data, tmp_path):
    recipe = make_recipe(data, tmp_path / "run")
    before = train_captioner(recipe)
    after = train_captioner(recipe, resume=True)
    assert (after.step, after.best_score, after.finished) == (before.step, before.best_score, True)


def test_early_stopping(data, tmp_path):
    settings = OptimizerConfig(learning_rate=1e-12)
    report = train_captioner(
        make_recipe(data, tmp_path / "run", max_steps=900, max_epochs=900, patience=2, optimizer=settings)
    )
    assert report.finished
    assert report.step < 900
    assert "2 validations" in report.reason


@pytest.mark.parametrize("stage", STAGES)
def test_non_finite_loss_names_its_batch(data, pretrained, tmp_path, stage):
    settings = OptimizerConfig(learning_rate=3e37, clip_norm=0)
    start = None if stage == "cross_entropy" else pretrained
    recipe = make_recipe(
        data, tmp_path / "run", start=start, stage=stage, max_steps=50, max_epochs=50, optimizer=settings
    )
    with pytest.raises(InputError, match=r"the loss of step \d+ .* is not finite; the images of its batch are \d+"):
        train_captioner(recipe)


def test_keeps_the_sorter_of_the_start_bundle(data, pretrained, tmp_path):
    vectors = WordVectors("two numbers", {"dog": 0}, np.ones((1, 2), np.float32))
    add_sorter(pretrained, ControlSorter(ClassOrder({"dog": 0.5}), vectors), tmp_path / "sorting")
    train_captioner(make_recipe(data, tmp_path / "run", start=tmp_path / "sorting", max_steps=1))
    assert load_bundle(tmp_path / "run" / "best").sorter is not None


def test_uses_the_nouns_of_the_dataset_if_the_bundle_has_none(data, pretrained, tmp_path):
    known = load_bundle(pretrained)
    save_bundle(tmp_path / "bare", known.model, known.vocabulary, encoder=known.encoder)
    train_captioner(make_recipe(data, tmp_path / "run", start=tmp_path / "bare", stage="cider_and_nw", max_steps=1))
    assert load_bundle(tmp_path / "run" / "best").nouns is not None


def test_trains_without_a_validation_split(tmp_path):
    data = make_noun_dataset(tmp_path / "data", has_val=False)
    report = train_captioner(make_recipe(data, tmp_path / "run"))
    assert (report.finished, report.best_score) == (True, None)
    load_bundle(tmp_path / "run" / "best")


def test_seed_determines_the_run(data, tmp_path):
    recipe = make_recipe(data, tmp_path / "one", max_steps=3)
    train_captioner(recipe)
    train_captioner(replace(recipe, out=str(tmp_path / "same")))
    train_captioner(replace(recipe, out=str(tmp_path / "other"), seed=2))
    assert_same(read_tensors(tmp_path / "one"), read_tensors(tmp_path / "same"))
    assert read_losses(tmp_path / "one") != read_losses(tmp_path / "other")


def train_in_subprocess(
    recipe: CaptionerRecipe, folder: Path, *, resumes: Sequence[bool] = (False,), processes: int = 1
) -> subprocess.Popen:
    """Train as the command line does, once or several times, single-threaded."""
    path = folder / "recipe.toml"
    path.write_text(recipe.to_toml())
    code = (
        "import atexit, os, sys, lightning_fabric, torch; from pathlib import Path; torch.set_num_threads(1)\n"
        "from sct.training.captioner.trainer import train_captioner\n"
        "from sct.training.captioner.config import CaptionerRecipe\n"
        "@atexit.register\n"
        "def check_process_group():\n"  # registered first, called last
        "    if torch.distributed.is_initialized():\n"
        "        print('the process group was not destroyed', flush=True)\n"
        "        os._exit(1)\n"
        "print('started', flush=True)\n"
        f"for resume in {list(resumes)}:\n"
        f"    train_captioner(CaptionerRecipe.load(Path({str(path)!r})), resume=resume)\n"
    )
    script = folder / "train.py"
    script.write_text(code)
    arguments = [sys.executable, str(script)]
    if processes > 1:
        arguments = [
            sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}", "--standalone", str(script)
        ]  # fmt: skip
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("stage", ["cross_entropy", "cider_and_nw"])
def test_two_ranks_equal_one(data, pretrained, tmp_path, stage):
    start = None if stage == "cross_entropy" else pretrained
    one = make_recipe(data, tmp_path / "one", start=start, stage=stage, max_steps=5)
    two = make_recipe(data, tmp_path / "two", start=start, stage=stage, max_steps=5, devices=2)
    train_captioner(one)
    process = train_in_subprocess(two, tmp_path, processes=2)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    one_rank, two_ranks = read_tensors(tmp_path / "one"), read_tensors(tmp_path / "two")
    for name, tensor in one_rank.items():
        torch.testing.assert_close(two_ranks[name], tensor, rtol=1e-4, atol=1e-6, msg=name)
    assert mean_loss(tmp_path / "two") == pytest.approx(mean_loss(tmp_path / "one"), rel=1e-4)


def test_process_group_survives_two_runs_and_is_destroyed_at_exit(data, tmp_path):
    recipe = make_recipe(data, tmp_path / "run", max_steps=2, devices=2)
    process = train_in_subprocess(recipe, tmp_path, resumes=(False, True), processes=2)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output


def test_ranks_need_a_shared_run_directory(data, tmp_path):
    """Each rank works in its own directory, as on separate machines; only the first has the checkpoint."""
    for rank in (0, 1):
        (tmp_path / f"{rank}").mkdir()
    train_captioner(make_recipe(data, tmp_path / "0" / "run", max_steps=2))
    script = tmp_path / "train.py"
    script.write_text(
        "import os; from pathlib import Path\n"
        "from sct.training.captioner.trainer import train_captioner\n"
        "from sct.training.captioner.config import CaptionerRecipe\n"
        f"os.chdir(Path({str(tmp_path)!r}) / os.environ['RANK'])\n"
        "train_captioner(CaptionerRecipe.load(Path('../two.toml')), resume=True)\n"
    )
    two = make_recipe(data, Path("run"), max_steps=4, devices=2)
    (tmp_path / "two.toml").write_text(two.to_toml())
    arguments = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", str(script)]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode != 0
    assert "expected a directory that all machines share" in ended.stderr


def test_run_killed_at_random_moments_resumes_exactly(data, tmp_path):
    """After twenty kills the run ends with the same tensors as an undisturbed one."""
    long = make_recipe(
        data, tmp_path / "killed", max_steps=4000, max_epochs=4000, validate_every=2, checkpoint_every_seconds=0.01
    )
    rng = random.Random(1)
    reached = []
    for number in range(20):
        with train_in_subprocess(long, tmp_path, resumes=[number > 0]) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            time.sleep(rng.uniform(0.0, 1.0))
            process.kill()
        if (tmp_path / "killed" / "checkpoint.safetensors").exists():
            reached.append(load_checkpoint(tmp_path / "killed" / "checkpoint.safetensors").state.step)
            for name in ("best", "last"):
                if (tmp_path / "killed" / name).exists():
                    load_bundle(tmp_path / "killed" / name)
    assert reached == sorted(reached)
    assert reached[-1] > 0
    end = reached[-1] + 3
    train_captioner(replace(long, max_steps=end), resume=True)
    train_captioner(replace(long, out=str(tmp_path / "whole"), max_steps=end))
    assert_same(read_tensors(tmp_path / "killed"), read_tensors(tmp_path / "whole"))
    steps = [line["step"] for line in read_metrics(tmp_path / "killed") if line["kind"] == "validation"]
    assert steps == sorted(set(steps))


@pytest.mark.parametrize("processes", [1, 2])
def test_sigterm_saves_a_checkpoint(data, tmp_path, processes):
    recipe = make_recipe(
        data, tmp_path / "run", max_steps=100_000, max_epochs=100_000, validate_every=10_000, devices=processes
    )
    process = train_in_subprocess(recipe, tmp_path, processes=processes)
    while not (tmp_path / "run" / "metrics.jsonl").exists() or not (tmp_path / "run" / "metrics.jsonl").read_text():
        assert process.poll() is None
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    if processes == 1:  # torchrun always fails after a signal
        assert process.returncode == 0, output
    assert load_checkpoint(tmp_path / "run" / "checkpoint.safetensors").state.step > 0
