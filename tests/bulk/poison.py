"""A task for tests of engines: its workers write a file per shard, and some shards kill their worker."""

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
    """Each attempt at a shard adds a byte to ``attempts/NAME``; the shards ``poisoned`` never end well."""

    attempts: Path
    poisoned: tuple[str, ...] = ()
    seconds: float = 0.0

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
        if shard.name in self.poisoned:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        output.num_images = 1
        output.file(".txt").write_text(shard.name)
        return {}


def main(shards: str, attempts: str, out: str, address: str, poisoned: str) -> None:
    """Run on a Ray cluster and print what failed."""
    task = PoisonTask(attempts=Path(attempts), poisoned=(poisoned,))
    config = RunConfig(engine="ray", address=address or None, max_attempts=3)
    result = run_job(task, list_shards([shards]), Location.parse(out), config)
    print(result.num_run, *(f"{failure.shard}: {failure.reason}" for failure in result.failures))
