"""A task for tests of engines: its workers write a file per shard, and some shards kill their worker or stop it."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from sct.bulk.driver import RunConfig, run_job
from sct.bulk.location import Location
from sct.bulk.shards import list_shards


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonTask:
    """Each attempt at a shard adds a byte to ``attempts/NAME``; the shards ``poisoned`` never end well.

    At the first attempt at a shard of ``stopped`` the process is stopped by a signal; at one of ``blocked`` it sleeps.
    """

    attempts: Path
    poisoned: tuple[str, ...] = ()
    seconds: float = 0.0
    stopped: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()

    @property
    def command(self):
        return "poison"

    def settings(self):
        return {"poisoned": list(self.poisoned)}

    def build(self):
        return self

    def process(self, shard, output):
        with (self.attempts / shard.name).open("ab") as file:
            file.write(b"x")
            is_first = file.tell() == 1
        if shard.name in self.poisoned:
            os.kill(os.getpid(), signal.SIGKILL)
        if shard.name in self.stopped and is_first:
            os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(1e6 if shard.name in self.blocked and is_first else self.seconds)
        output.num_images = 1
        output.file(".txt").write_text(shard.name)
        return {}


def main(shards: str, attempts: str, out: str, address: str, fate: str, name: str) -> None:
    """Run on a Ray cluster, where the shard ``name`` has a fate, and print what failed."""
    task = PoisonTask(attempts=Path(attempts), **{fate: (name,)})
    stall_minutes = 0.0 if fate == "poisoned" else 0.1
    config = RunConfig(engine="ray", address=address, max_attempts=3, stall_minutes=stall_minutes)
    result = run_job(task, list_shards([shards]), Location.parse(out), config)
    print(result.num_run, *(f"{failure.shard}: {failure.reason}" for failure in result.failures))
