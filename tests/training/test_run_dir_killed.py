"""Runs killed at random moments resume from their last checkpoint without corruption."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sct.captioner.bundle import load_bundle
from sct.training.checkpoint import load_checkpoint
from sct.training.metric_logger import read_metrics
from sct.training.run_dir import BEST, BUNDLES, CHECKPOINT, LAST

KILLS = 20


@pytest.fixture(scope="module")
def writer():
    script = Path(__file__).with_name("killed_writer.py")
    started = subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield started
    started.stdin.close()
    started.wait()
    started.stdout.close()


def _start(writer: subprocess.Popen[str], num_steps: int, run: Path) -> int:
    writer.stdin.write(f"{num_steps} {run}\n")
    writer.stdin.flush()
    word, process = writer.stdout.readline().split()
    assert word == "ready"
    return int(process)


def _check_consistent(run: Path) -> int:
    """Check that all files are complete and consistent; return the checkpoint's step."""
    if not (run / CHECKPOINT).exists():
        assert not (run / BEST).exists()
        return 0
    checkpoint = load_checkpoint(run / CHECKPOINT)
    step = checkpoint.state.step
    assert bool((checkpoint.tensors["weight"] == step).all())
    for bundle in (run / BUNDLES).glob("step-*"):
        weights = {number for weight in load_bundle(bundle).model.parameters() for number in weight.unique().tolist()}
        assert weights == {float(int(bundle.name.split("-")[1]))}
    for link in (run / BEST, run / LAST):
        assert link.exists() == os.path.lexists(link), "a broken link"
    for name in (checkpoint.state.best_bundle, checkpoint.state.last_bundle):
        assert (run / BUNDLES / name).is_dir()
    lines = (run / "metrics.jsonl").read_bytes()[: checkpoint.state.metrics_bytes]
    assert lines.count(b"\n") == step
    return step


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
def test_run_killed_twenty_times_stays_consistent(tmp_path, writer):
    run = tmp_path / "run"
    _start(writer, 4, run)
    start = time.monotonic()
    assert writer.stdout.readline() == "done 0\n"
    span = time.monotonic() - start  # duration of an undisturbed run, so that kills are spread over it on any machine
    rng = random.Random(5)
    steps = [_check_consistent(run)]
    assert steps == [4]
    for _ in range(KILLS):
        process = _start(writer, 0, run)
        time.sleep(rng.uniform(0, min(2 * span, 0.5)))
        os.kill(process, signal.SIGKILL)
        assert writer.stdout.readline() == f"done {-signal.SIGKILL}\n"
        steps.append(_check_consistent(run))
    assert steps == sorted(steps), "a checkpoint was lost"
    print(f"killed {KILLS} times within {span:.2f} s each; steps reached: {steps}")
    _start(writer, 3, run)
    assert writer.stdout.readline() == "done 0\n"
    final = _check_consistent(run)
    assert final == steps[-1] + 3
    assert [line["step"] for line in read_metrics(run)] == list(range(1, final + 1))
    state = load_checkpoint(run / CHECKPOINT).state
    assert (run / BEST).readlink() == Path(BUNDLES, state.best_bundle)
    assert (run / LAST).readlink() == Path(BUNDLES, state.last_bundle)
    assert {path.name for path in (run / BUNDLES).iterdir()} == {state.best_bundle, state.last_bundle}
    assert not list(run.rglob("*.part"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
@pytest.mark.parametrize("seed", range(3))
def test_run_killed_at_the_start(tmp_path, writer, seed):
    run = tmp_path / "run"
    process = _start(writer, 0, run)
    time.sleep(random.Random(seed).uniform(0, 0.02))
    os.kill(process, signal.SIGKILL)
    assert writer.stdout.readline() == f"done {-signal.SIGKILL}\n"
    step = _check_consistent(run)
    _start(writer, 2, run)
    assert writer.stdout.readline() == "done 0\n"
    assert _check_consistent(run) == step + 2
