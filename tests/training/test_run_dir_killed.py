"""A run killed at any instant goes on from its last checkpoint, and nothing of it is corrupt."""

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
from sct.training.metric_logger import read_journal
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


def _check_whole(run: Path) -> int:
    """Everything that has a name can be read, and it all fits together; gives the checkpoint's step."""
    if not (run / CHECKPOINT).exists():
        assert not (run / BEST).exists()
        return 0
    checkpoint = load_checkpoint(run / CHECKPOINT)
    step = checkpoint.facts.step
    assert bool((checkpoint.tensors["weight"] == step).all())
    for bundle in (run / BUNDLES).glob("step-*"):
        weights = {
            number for weight in load_bundle(bundle).captioner.parameters() for number in weight.unique().tolist()
        }
        assert weights == {float(int(bundle.name.split("-")[1]))}
    for link in (run / BEST, run / LAST):
        assert link.exists() == os.path.lexists(link), "a link that leads nowhere"
    for name in (checkpoint.facts.best_bundle, checkpoint.facts.last_bundle):
        assert (run / BUNDLES / name).is_dir()
    lines = (run / "metrics.jsonl").read_bytes()[: checkpoint.facts.journal_bytes]
    assert lines.count(b"\n") == step
    return step


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
def test_a_run_killed_twenty_times_is_never_corrupt(tmp_path, writer):
    run = tmp_path / "run"
    _start(writer, 4, run)
    begun = time.monotonic()
    assert writer.stdout.readline() == "done 0\n"
    span = time.monotonic() - begun  # of a run that was let be: so kills fall everywhere, on any machine
    chance = random.Random(5)
    steps = [_check_whole(run)]
    assert steps == [4]
    for _ in range(KILLS):
        process = _start(writer, 0, run)
        time.sleep(chance.uniform(0, min(2 * span, 0.5)))
        os.kill(process, signal.SIGKILL)
        assert writer.stdout.readline() == f"done {-signal.SIGKILL}\n"
        steps.append(_check_whole(run))
    assert steps == sorted(steps), "a checkpoint was lost"
    print(f"killed {KILLS} times within {span:.2f} s each; steps reached: {steps}")
    _start(writer, 3, run)
    assert writer.stdout.readline() == "done 0\n"
    final = _check_whole(run)
    assert final == steps[-1] + 3
    assert [line["step"] for line in read_journal(run)] == list(range(1, final + 1))
    facts = load_checkpoint(run / CHECKPOINT).facts
    assert (run / BEST).readlink() == Path(BUNDLES, facts.best_bundle)
    assert (run / LAST).readlink() == Path(BUNDLES, facts.last_bundle)
    assert {path.name for path in (run / BUNDLES).iterdir()} == {facts.best_bundle, facts.last_bundle}
    assert not list(run.rglob("*.part"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
@pytest.mark.parametrize("seed", range(3))
def test_a_run_killed_as_it_begins(tmp_path, writer, seed):
    run = tmp_path / "run"
    process = _start(writer, 0, run)
    time.sleep(random.Random(seed).uniform(0, 0.02))
    os.kill(process, signal.SIGKILL)
    assert writer.stdout.readline() == f"done {-signal.SIGKILL}\n"
    begun = _check_whole(run)
    _start(writer, 2, run)
    assert writer.stdout.readline() == "done 0\n"
    assert _check_whole(run) == begun + 2
