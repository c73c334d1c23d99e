"""The loop that hands shards to workers, with workers that die in every way; no processes."""

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow, of the extra prepare, is not installed")

from sct.bulk.engine import MAX_FAILED_STARTS, Engine, Event, run_shards
from sct.bulk.job import Job
from sct.bulk.location import Location
from sct.bulk.shards import Shard
from sct.bulk.worker import ShardResult, WorkerConfig
from sct.errors import InputError
from tests.bulk.poison import PoisonTask


def make_shard(name):
    return Shard(name=name, kind="tar", location=Location.parse(f"/{name}.tar"), size=1, version="1")


class ScriptedEngine(Engine):
    """Workers whose n-th attempt at a shard has the n-th fate of its list, then "done"."""

    def __init__(self, fates=None, *, starts=(), num_workers=2):
        self.fates, self.starts = {name: list(values) for name, values in (fates or {}).items()}, list(starts)
        self.num_workers, self.events, self.alive, self.is_closed = num_workers, [], set(), False
        self.num_started, self.attempts, self.max_alive = 0, Counter(), 0
        self.slow = {}

    def capacity(self):
        return self.num_workers

    def start_worker(self, config):  # noqa: ARG002
        number = self.num_started
        self.num_started += 1
        kind = self.starts.pop(0) if self.starts else "ready"
        if kind != "lost":
            self.alive.add(number)
        self.max_alive = max(self.max_alive, len(self.alive))
        if kind == "hang":
            return number
        self.events.append(Event(worker=number, kind=kind, reason="why"))
        return number

    def submit(self, worker, shard):
        assert worker in self.alive
        self.attempts[shard.name] += 1
        fate = self.fates.get(shard.name, []).pop(0) if self.fates.get(shard.name) else "done"
        if fate == "lost":
            self.alive.discard(worker)
            self.events.append(Event(worker=worker, kind="lost", reason="why"))
        elif fate == "slow":
            self.slow[worker] = 0
        elif fate != "hang":
            self.events.append(Event(worker=worker, kind="result", result=ShardResult(kind=fate, reason="why")))

    def wait(self, timeout):  # noqa: ARG002
        events, self.events = self.events, []
        return events

    def count_steps(self):
        """One more step of each slow worker at each look; it is done after ten."""
        for worker in list(self.slow):
            self.slow[worker] += 1
            if self.slow[worker] == 10:
                self.events.append(Event(worker=worker, kind="result", result=ShardResult(kind="done")))
        return {worker: self.slow.get(worker, 0) for worker in self.alive}

    def kill_worker(self, worker):
        self.alive.remove(worker)
        return "a process"

    def close(self):
        self.is_closed = True


def run_names(engine, names, max_attempts=3):
    job = Job(folder=Location.parse("/out"), fingerprint="")
    config = WorkerConfig(job=job, task=PoisonTask(attempts=Path("/attempts")), threads=1)
    shards = [make_shard(name) for name in names]
    outcomes = list(run_shards(engine, config, shards, max_attempts=max_attempts, stall_seconds=0.02))
    assert engine.is_closed
    assert len(outcomes) == len(names)
    return {outcome.shard.name: outcome.result for outcome in outcomes}


@pytest.mark.parametrize(
    ("fates", "kind", "num_attempts"),
    [
        pytest.param([], "done", 1, id="no problem"),
        pytest.param(["lost"], "done", 2, id="a worker dies once"),
        pytest.param(["lost", "retry"], "done", 3, id="then the network fails"),
        pytest.param(["lost"] * 9, "failed", 3, id="a poisoned shard"),
        pytest.param(["retry"] * 9, "failed", 3, id="a network that stays away"),
        pytest.param(["failed"], "failed", 1, id="a damaged shard"),
        pytest.param(["hang"], "done", 2, id="a worker hangs once"),
        pytest.param(["lost", "hang"], "done", 3, id="one dies, one hangs"),
        pytest.param(["hang"] * 9, "failed", 3, id="a shard at which workers hang"),
        pytest.param(["slow"], "done", 1, id="a slow worker is let be"),
    ],
)
def test_attempts_are_bounded(fates, kind, num_attempts):
    engine = ScriptedEngine({"b": fates})
    results = run_names(engine, ["a", "b", "c"])
    assert (results["b"].kind, engine.attempts["b"]) == (kind, num_attempts)
    assert (results["a"].kind, results["c"].kind) == ("done", "done")
    if num_attempts == 3 and kind == "failed":
        assert results["b"].reason.startswith("3 attempts failed, the last one because ")


def test_no_shards_start_no_worker():
    engine = ScriptedEngine()
    assert run_names(engine, []) == {}
    assert engine.num_started == 0


def test_no_more_workers_than_shards_or_capacity():
    engine = ScriptedEngine(num_workers=3)
    run_names(engine, ["a", "b"])
    assert engine.max_alive == 2


def test_workers_that_cannot_start():
    with pytest.raises(InputError, match="why"):
        run_names(ScriptedEngine(starts=["unusable"]), ["a"])
    engine = ScriptedEngine(starts=["lost"] * 99)
    with pytest.raises(InputError, match=f"{MAX_FAILED_STARTS} workers in a row died"):
        run_names(engine, ["a"])
    assert engine.is_closed
    assert run_names(ScriptedEngine(starts=["lost", "lost"]), ["a"])["a"].kind == "done"


def test_a_worker_that_hangs_is_named(caplog):
    results = run_names(ScriptedEngine({"b": ["hang"] * 9}, num_workers=1), ["b"], max_attempts=2)
    assert "because its worker died (killed after 0 s without progress)" in results["b"].reason
    expected = [f"worker {number} (a process) made no progress on shard b for 0 s: killed" for number in (0, 1)]
    assert caplog.messages == expected


def test_workers_that_hang_while_they_load(monkeypatch, caplog):
    monkeypatch.setattr("sct.bulk.engine.MIN_START_SECONDS", 0.02)
    assert run_names(ScriptedEngine(starts=["hang"]), ["a"])["a"].kind == "done"
    assert caplog.messages == ["worker 0 (a process) made no progress in loading its models for 0 s: killed"]
    with pytest.raises(InputError, match=f"{MAX_FAILED_STARTS} workers in a row died"):
        run_names(ScriptedEngine(starts=["hang"] * 99), ["a"])
