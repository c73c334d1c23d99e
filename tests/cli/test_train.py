"""``sct train``: output, errors, signals and resuming."""

import io
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sct.captioner.bundle import load_bundle
from sct.cli.main import run
from sct.training.captioner.config import CaptionerRecipe
from sct.training.captioner.trainer import CaptionerReport
from sct.training.metric_logger import TrainingProgress, read_metrics

ROOT = Path(__file__).parents[2]
TINY_RECIPE = ROOT / "recipes" / "tiny.toml"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    out = tmp_path_factory.mktemp("train") / "tiny"
    assert run(["prepare", str(ROOT / "examples" / "tiny"), str(out)]) == 0
    return out


@pytest.fixture
def arguments(tiny, tmp_path):
    return ["train", str(TINY_RECIPE), f"data={tiny}", f"out={tmp_path / 'run'}", "device.accelerator=cpu"]


def test_train_reports_and_resumes(arguments, tmp_path, capsys):
    assert run([*arguments, "max_steps=2"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{tmp_path / 'run'}: 2 steps, 0.67 epochs, ")  # 30 captions, 10 per step
    assert f"best validation CIDEr {json.loads(_last_line(tmp_path))['C']:.1f}: {tmp_path / 'run'}/best\n" in out
    assert " step 2, epoch 0.67, " in err
    assert run([*arguments, "max_steps=3", "--resume", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["step"], report["epochs"], report["finished"]) == (3, 1.0, True)
    steps = [line["step"] for line in read_metrics(tmp_path / "run") if line["kind"] == "validation"]
    assert steps == [2, 3]
    assert CaptionerRecipe.load(tmp_path / "run" / "recipe.toml").max_steps == 3
    for name in ("best", "last"):
        assert load_bundle(tmp_path / "run" / name).model.config.hidden_size == 64


def _last_line(tmp_path: Path) -> str:
    return (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        pytest.param(["batchsize=5"], "did you mean batch_size?", id="unknown setting"),
        pytest.param(["batch_size"], "got 'batch_size', expected key=value", id="override without a value"),
        pytest.param(["objective.stage=cider"], "name the bundle to start from", id="self-critical from scratch"),
        pytest.param(["--resume"], "there is no run to resume: leave out --resume", id="nothing to resume"),
        pytest.param(["data=nowhere"], "nowhere does not exist", id="no dataset"),
    ],
)
def test_errors_are_one_line(arguments, overrides, message, capsys):
    assert run([*arguments, *overrides]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sct: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        pytest.param(["data=nowhere"], "nowhere does not exist", id="no dataset"),
        pytest.param(["from=nowhere"], "nowhere does not exist", id="no bundle"),
        pytest.param(["model.init_language_from=nowhere"], "nowhere does not exist", id="no language weights"),
        pytest.param(["examples.vision=nowhere"], "nowhere does not exist", id="no vision encoder"),
        pytest.param(["examples.features=nowhere"], "nowhere", id="no region store"),
        pytest.param(["device.accelerator=abacus"], "device.accelerator=abacus", id="no such device"),
        pytest.param(["device.strategy=luck"], "device.strategy=luck cannot be used here", id="no such strategy"),
        pytest.param(["model.hidden_size=60000"], "weights, expected at most", id="no such memory"),
    ],
)
def test_a_refused_run_leaves_nothing_behind(arguments, overrides, message, tmp_path, capsys):
    nested = tmp_path / "a" / "b"
    assert run([*arguments, f"out={nested}", *overrides]) == 2
    assert not (tmp_path / "a").exists()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "notes.txt").touch()
    assert run([*arguments, f"out={tmp_path / 'a'}", *overrides]) == 2
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["notes.txt"]
    err = capsys.readouterr().err
    assert err.count("sct: ") == 2
    assert message in err


@pytest.mark.parametrize("task", ["sorter", "vision"])
def test_a_refused_run_of_any_task_leaves_nothing_behind(task, tmp_path, capsys):
    (tmp_path / "mine.toml").write_text(f'task = "{task}"\ndata = "nowhere"\nout = "{tmp_path}/run"\n')
    assert run(["train", str(tmp_path / "mine.toml")]) == 2
    assert not (tmp_path / "run").exists()
    assert "nowhere does not exist" in capsys.readouterr().err


def test_without_the_extra_the_error_says_what_to_install(arguments, tmp_path):
    """In a subprocess: lightning_fabric is imported by now."""
    code = (
        "import sys; sys.modules['lightning_fabric'] = None; from sct.cli.main import run; sys.exit(run(sys.argv[1:]))"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "training a captioner needs the extra 'train'" in done.stderr
    assert "pip install 'show-control-and-tell[train]'" in done.stderr
    assert not (tmp_path / "run").exists()


def test_missing_recipe(capsys):
    assert run(["train", "nowhere.toml"]) == 2
    assert capsys.readouterr().err.startswith("sct: nowhere.toml does not exist")


def test_existing_run_is_not_overwritten(arguments, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text("{}\n")
    assert run(arguments) == 2
    assert "resume it with --resume" in capsys.readouterr().err


def test_other_ranks_print_nothing(arguments, monkeypatch, capsys):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr("sct.training.run.train_recipe", lambda *_, on_progress, **__: on_progress(None))
    assert run(arguments) == 0
    assert capsys.readouterr() == ("", "")


def test_terminal_shows_one_progress_line(arguments, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def train_recipe(*_, on_progress, **__) -> CaptionerReport:
        on_progress(TrainingProgress(step=1, epoch=0.5))
        logging.getLogger("sct.training").info("validated")
        on_progress(TrainingProgress(step=2, epoch=1.0))
        return CaptionerReport(
            out="o", step=2, epochs=1.0, seconds=61.0, best_score=None, finished=True, reason="the recipe is complete"
        )

    monkeypatch.setattr("sct.training.run.train_recipe", train_recipe)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    assert run(arguments) == 0
    lines = [line.rsplit("\r", 1)[-1].removeprefix("\x1b[2K") for line in terminal.getvalue().split("\n")]
    assert lines[0].endswith(" validated")
    assert lines[1].endswith("step 2, epoch 1.00")
    assert "step 1, epoch 0.50" in terminal.getvalue()


def test_sigterm_saves_and_resume_continues(arguments, tmp_path, capsys):
    command = [sys.executable, "-c", "import sct.cli; sct.cli.main()", *arguments, "max_epochs=100000", "patience=0"]
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert child.stderr is not None
    while "step" not in (line := child.stderr.readline()):  # training has started
        assert line, "training ended by itself"
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate()
    assert child.returncode == 0, err
    assert "continue with --resume" in out
    step = int(out.split(": ")[1].split(" steps")[0].replace(",", ""))
    assert run([*arguments, "patience=0", f"max_steps={step + 1}", "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["step"] == step + 1
    steps = [line["step"] for line in read_metrics(tmp_path / "run") if line["kind"] == "train"]
    assert steps == sorted(set(steps))
