"""Where runs lie, which of them are done, and the command that makes each.

A run that ``sct reproduce`` began leaves ``reproduction.log`` in its folder, and ``reproduction.json``, the report of
``sct train``, once it is done: a run that has the first alone was cut off and goes on. Anybody else's run counts as
done if it has a ``best``.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sct.errors import InputError
from sct.reproduction.kept import read_kept
from sct.reproduction.plan import RUN_KINDS, PlannedRun
from sct.training.captioner.config import load_recipe
from sct.training.checkpoint import load_checkpoint
from sct.training.config import as_word, flat_settings
from sct.training.metric_logger import METRICS
from sct.training.run_dir import BEST, CHECKPOINT, RECIPE
from sct.training.sorter.config import load_sorter_recipe

LOG, REPORT = "reproduction.log", "reproduction.json"
_PLANNED: Mapping[str, str] = {
    "seed": "--seeds",
    "out": "--runs",
    "from": "--runs",
    "data": "--data",
    "model.variant": "--systems",
    "kind": "--systems",
}
"""Settings that make a run the one that it is among the others, and what to choose runs by instead."""
_LEAST_SECONDS = 0.001
"""No time at all would be no limit to ``sct train``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """What all runs of a table share."""

    data: Path
    """Dataset folder, made by ``sct prepare``."""
    runs: Path
    recipes: Path
    settings: tuple[str, ...] = ()
    """``key=value`` for every stage of a captioner, ``cider:key=value`` for one of them, ``sorter:key=value``."""
    accelerator: str = "auto"
    """What captioners are trained on, in the words of recipes."""
    image_folder: Path | None = None
    """Where the dataset's images are, if they have moved."""

    def __post_init__(self) -> None:
        """Refuse a folder without recipes and settings of no stage, or over the plan, before anything runs."""
        refuse_file(self.runs, "--runs")
        if not self.recipes.is_dir():
            raise InputError(
                f"{self.recipes} is no folder: expected the recipes of the project, --recipes DIR; they are in its "
                "repository, under recipes/"
            )
        for word in self.settings:
            setting = _setting(word)
            if setting.stage and setting.stage not in RUN_KINDS:
                raise InputError(
                    f"{word!r} is for the stage {setting.stage!r}: expected {', '.join(RUN_KINDS)}, or no stage"
                )
            if setting.key in _PLANNED:
                raise InputError(
                    f"{word!r} would make runs others than their names say: leave {setting.key}= out, and choose by "
                    f"{_PLANNED[setting.key]}"
                )

    def folder(self, run: PlannedRun) -> Path:
        """Where a run is, or would be."""
        return self.runs / run.name

    def best(self, run: PlannedRun) -> Path:
        """Its bundle, or sorter."""
        return self.folder(run) / BEST

    def is_done(self, run: PlannedRun) -> bool:
        """Whether a run can be judged as it is."""
        was_begun_here = (self.folder(run) / LOG).exists()
        return self.best(run).is_dir() and (not was_begun_here or (self.folder(run) / REPORT).exists())

    def is_begun(self, run: PlannedRun) -> bool:
        """Whether there is something to go on from."""
        metrics = self.folder(run) / METRICS
        return (self.folder(run) / CHECKPOINT).exists() or (metrics.is_file() and metrics.stat().st_size > 0)

    def report(self, run: PlannedRun) -> dict[str, Any]:
        """What ``saved_report`` kept of a run; nothing of one that is not done, or was not begun here."""
        return read_kept(self.folder(run) / REPORT)

    def recipe(self, run: PlannedRun) -> Path:
        """The file of a run's recipe."""
        return self.recipes / f"{run.recipe}.toml"

    def planned_settings(self, run: PlannedRun) -> list[str]:
        """The ``key=value`` words that a run would be begun with."""
        words = [*self._places(run), *run.settings, *self._user_settings(run)]
        if run.kind != "sorter":
            words += [] if self.image_folder is None else [f"examples.image_folder={self.image_folder}"]
            words += [] if self.accelerator == "auto" else [f"device.accelerator={self.accelerator}"]
        return words

    def check(self, run: PlannedRun) -> None:
        """Refuse settings that a run's recipe does not know, before anything is trained."""
        load = load_sorter_recipe if run.kind == "sorter" else load_recipe
        load(self.recipe(run), self.planned_settings(run))

    def time_allowed(self, run: PlannedRun) -> float:
        """Seconds that the user allows a run; none at all: as long as it takes."""
        given = [word for word in self._user_settings(run) if word.startswith("max_seconds=")]
        return float(given[-1].partition("=")[2]) if given else 0.0

    def time_left(self, run: PlannedRun) -> list[str]:
        """The ``key=value`` word by which a run that goes on has what is left of its time, and not all of it again."""
        allowed, checkpoint = self.time_allowed(run), self.folder(run) / CHECKPOINT
        if not allowed or not checkpoint.exists():
            return []
        return [f"max_seconds={max(allowed - load_checkpoint(checkpoint).facts.seconds, _LEAST_SECONDS)}"]

    def command(self, run: PlannedRun) -> str:
        """What somebody would type to have this run: as it was made, if it was, as it would be, if not.

        Settings on what device it ran are left out.
        """
        words = self._made_settings(run) if (self.folder(run) / RECIPE).exists() else self.planned_settings(run)
        return shlex.join(["sct", "train", str(self.recipe(run)), *words])

    def commands(self, run: PlannedRun) -> tuple[str, ...]:
        """The commands of what a run starts from, and its own."""
        before = () if run.start is None else self.commands(run.start)
        return (*before, self.command(run))

    def _places(self, run: PlannedRun) -> list[str]:
        start = [] if run.start is None else [f"from={self.best(run.start)}"]
        return [f"data={self.data}", f"out={self.folder(run)}", *start]

    def _user_settings(self, run: PlannedRun) -> list[str]:
        settings = map(_setting, self.settings)
        return [
            setting.word
            for setting in settings
            if ((setting.stage == run.kind) if setting.stage else run.kind != "sorter")
        ]

    def _made_settings(self, run: PlannedRun) -> list[str]:
        """The settings of a finished run that its recipe's file does not have; where things are is said anew."""
        load = load_sorter_recipe if run.kind == "sorter" else load_recipe
        made, plain = (
            flat_settings(load(path, words))
            for path, words in ((self.folder(run) / RECIPE, []), (self.recipe(run), self._places(run)))
        )
        # All its time, over all calls: the recipe of a run that went on says what it had left.
        made |= {"max_seconds": allowed} if (allowed := self.report(run).get("max_seconds")) else {}
        is_elsewhere = {"data", "out", "from", "examples.image_folder", "device"}
        changed = [
            f"{key}={as_word(value)}"
            for key, value in made.items()
            if value != plain[key] and key not in is_elsewhere and not key.startswith("device.")
        ]
        return [*self._places(run), *changed]


def refuse_file(path: Path, option: str) -> None:
    """Refuse a file where a folder is to be, or to be made."""
    found = next((part for part in (path, *path.parents) if part.exists()), None)
    if found is not None and not found.is_dir():
        raise InputError(f"{found} is a file: expected a folder, {option} DIR")


@dataclass(frozen=True, slots=True)
class _Setting:
    """A setting over recipes, and of which they are."""

    word: str
    """As ``sct train`` takes it."""
    key: str
    stage: str
    """Empty: all stages of captioners."""


def _setting(word: str) -> _Setting:
    before, equals, value = word.partition("=")
    stage, colon, name = before.partition(":")
    key = name if colon else before
    return _Setting(f"{key}{equals}{value}", key, stage if colon else "")


def missing_runs(place: Workplace, expected: Sequence[PlannedRun]) -> list[list[PlannedRun]]:
    """The runs that have to be trained for the expected ones, in chains: each run of a chain starts from one before it.

    A run that is done is taken as it is, whatever became of what it started from.
    """
    needed: dict[str, PlannedRun] = {}
    for run in expected:
        step: PlannedRun | None = run
        while step is not None and not place.is_done(step):
            needed.setdefault(step.name, step)
            step = step.start
    chains: dict[str, list[PlannedRun]] = {}
    for run in sorted(needed.values(), key=lambda run: RUN_KINDS.index(run.kind)):
        first = run
        while first.start is not None:
            first = first.start
        chains.setdefault(first.name, []).append(run)
    return list(chains.values())


def saved_report(report: Mapping[str, object], allowed: float, dataset: str) -> bytes | None:
    """The report of a run to be kept, if that was all of it: it came to its end, or used up the time it was allowed.

    With it are kept that time and the checksum of the ``dataset``.
    """
    seconds = report.get("seconds")
    is_used_up = isinstance(seconds, float) and 0 < allowed <= seconds
    if not (report.get("finished") or is_used_up):
        return None
    return json.dumps({**report, "max_seconds": allowed, "dataset": dataset}, indent=1).encode("utf-8")
