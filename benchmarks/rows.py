r"""Train and caption the rows of the tables on coco-layout, several systems at once on one GPU.

    sct prepare coco-layout/ build/coco_layout
    sct train recipes/sorter_coco_layout.toml
    nvidia-cuda-mps-control -d                                # so that kernels of several runs share the GPU
    python benchmarks/rows.py build/coco_layout runs/sorter_coco_layout build/rows [KEY=VALUE ...]
    cp -r build/rows/*/runs/coco_layout_* runs/
    sct reproduce table2 --data build/coco_layout --no-train  # and tableA3, table4, and table7 with --seeds 1

One ``sct reproduce`` for all would caption one run after the other. Here every system has a folder of runs and a
process of its own, so that some caption while others train; what is printed says which began and ended, and after how
many seconds. Systems that failed, as for want of memory beside the others, are asked again one by one at the end.
KEY=VALUE goes over SETTINGS, and these over the recipes', as in ``sct reproduce``. ``--systems ours,pos`` and
``--tables table7`` ask for some alone; systems that are in none of the tables are left out.
"""

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sct.reproduction.plan import SORTER, number_of_seeds, planned_run
from sct.reproduction.published import PublishedTable, RowKey, table_named
from sct.training.sorter.data import BEST

SORTER_RUN = planned_run(RowKey("coco", SORTER, "")).name
TABLES = ("table2", "tableA3", "table4", "table7")
"""Control by a sequence, by a set, and diversity."""
SYSTEMS = (
    "ours",
    "controllable_up_down",
    "single_sentinel",
    "no_visual_sentinel",
    "controllable_lstm",
    "up_down",
    "fc_2k",
    "neural_baby_talk",
    "pos",
    "ag_cvae",
)
"""Those that take longest first."""
SETTINGS = (
    "patience=0",
    "words:max_epochs=2",
    "words:batch_size=400",
    "words:optimiser.learning_rate=0.001",
    "words:optimiser.decay=0.5",
    "cider:max_steps=2500",
    "cider:validate_every=0.0714",
    "nouns:max_steps=700",
    "nouns:validate_every=0.0417",
)
BEGUN = time.monotonic()
_SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True, slots=True)
class Work:
    """What all systems share."""

    data: Path
    sorter: Path
    out: Path
    tables: tuple[PublishedTable, ...]
    seeds: int
    settings: tuple[str, ...]

    def begin(self, system: str) -> subprocess.Popen[bytes]:
        """Train a system, and have it caption by the protocol of every table that it is in."""
        runs = self.out / system / "runs"
        runs.mkdir(parents=True, exist_ok=True)
        if not (sorter := runs / SORTER_RUN).exists():
            sorter.symlink_to(self.sorter.resolve())
        commands = [self._command(table, system) for table in self.tables if system in _systems(table)]
        script = " && ".join(map(shlex.join, commands))
        with self.log(system).open("ab") as log:
            return subprocess.Popen(["sh", "-c", script], stdout=log, stderr=log)

    def log(self, system: str) -> Path:
        """What its commands print."""
        return self.out / system / "log"

    def num_runs(self, system: str) -> int:
        """Runs that a system has under way at once."""
        return number_of_seeds(system, max(map(self._seeds_of, self.tables)))

    def _seeds_of(self, table: PublishedTable) -> int:
        return 1 if table.protocol == "diversity" else self.seeds

    def _command(self, table: PublishedTable, system: str) -> list[str]:
        seeds = self._seeds_of(table)
        return [
            sys.executable, "-m", "sct", "reproduce", table.name, "--data", str(self.data),
            "--runs", str(self.out / system / "runs"), "--out", str(self.out / system / table.name),
            "--systems", system, "--seeds", str(seeds), "--jobs", str(seeds), "--metrics", "C", *self.settings,
        ]  # fmt: skip


def _systems(table: PublishedTable) -> set[str]:
    return {row.key.system for row in table.rows()}


def train_all(work: Work, systems: Sequence[str], slots: int) -> list[str]:
    """Have systems trained, so many runs at once; those that failed are given back."""
    waiting, failed = list(systems), []
    under_way: dict[str, subprocess.Popen[bytes]] = {}
    while waiting or under_way:
        taken = sum(map(work.num_runs, under_way))
        while waiting and (not under_way or taken + work.num_runs(waiting[0]) <= slots):
            system = waiting.pop(0)
            _say(f"{system} begins")
            under_way[system] = work.begin(system)
            taken += work.num_runs(system)
        time.sleep(_SECONDS_BETWEEN_LOOKS)
        for system in [system for system, process in under_way.items() if process.poll() is not None]:
            has_failed = bool(under_way.pop(system).returncode)
            _say(f"{system} failed: see {work.log(system)}" if has_failed else f"{system} is done")
            failed += [system] if has_failed else []
    return failed


def _say(text: str) -> None:
    print(f"{time.monotonic() - BEGUN:6.0f} s  {text}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("sorter", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--seeds", type=int, default=3, help="of ours and of Controllable Up-Down; diversity has one")
    parser.add_argument("--slots", type=int, default=7, help="runs at once; eight left no memory on 139 GiB")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    given = parser.parse_intermixed_args()
    systems, tables = given.systems.split(","), given.tables.split(",")
    for expected, known in ((systems, SYSTEMS), (tables, TABLES)):
        if unknown := set(expected) - set(known):
            parser.error(f"{min(unknown)!r} is not known: expected some of {', '.join(known)}")
    if not (given.sorter / BEST).is_dir():
        parser.error(f"{given.sorter} has no {BEST}: expected a sorter that sct train made")
    wanted_tables = tuple(map(table_named, tables))
    systems = [system for system in systems if any(system in _systems(table) for table in wanted_tables)]
    if not systems:
        parser.error(f"none of these systems is in {given.tables}")
    work = Work(given.data, given.sorter, given.out, wanted_tables, given.seeds, (*SETTINGS, *given.settings))
    if train_all(work, train_all(work, systems, given.slots), slots=1):
        raise SystemExit(1)
