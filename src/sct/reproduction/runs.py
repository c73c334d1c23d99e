"""Runs of a reproduction: where they are, which are finished, and which were trained on the dataset at hand.

A run that ``sct reproduce`` started has ``reproduction.log`` in its directory, and ``reproduction.json``, the report of
``sct train``, once it is finished; with the log alone it was interrupted and is resumed. A run that was trained by hand
counts as finished if it has a ``best`` bundle. Of a run that is not there at all, recipe, report and scores may be
recorded in a file ``runs.json``.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sct.data.dataset import TABLE, Dataset
from sct.errors import InputError
from sct.reproduction.plan import RUN_KINDS, PlannedRun, ReproductionConfig, parse_override
from sct.reproduction.published import DATA_NAMES, Data, PublishedTable
from sct.reproduction.records import EVALUATION, REPORT, RunRecord, load_recorded_runs, read_object
from sct.storage import reading
from sct.storage.artifacts import sha256_file
from sct.training.captioner.config import CaptionerRecipe
from sct.training.config import Recipe, flatten_config, format_override
from sct.training.run_dir import BEST, RECIPE, RunDir
from sct.training.sorter.config import SorterRecipe

LOG = "reproduction.log"
_DEFAULT_SPLIT = "val"
"""Neither substitute dataset has a test split, and sorters are scored on val only."""
_MIN_SECONDS = 0.001
"""Time budget of a run that has used it up, since 0 would disable the limit."""


@dataclass(frozen=True, slots=True, eq=False)
class SubstituteDataset:
    """A prepared dataset that is used in place of one of the paper's."""

    folder: Path
    dataset: Dataset
    sha256: str
    """Checksum of its table of captions and regions, recorded with runs and predictions."""

    @classmethod
    def open(cls, folder: Path) -> "SubstituteDataset":
        """Read a dataset folder."""
        return cls(folder, Dataset.open(folder), sha256_file(folder / TABLE))

    @property
    def kind(self) -> Data:
        """The dataset of the paper that it substitutes."""
        return "coco" if "coco" in self.dataset.manifest.source.lower() else "flickr"

    def check_table(self, table: PublishedTable) -> None:
        """Reject a table for the other dataset: its runs would be cached under the wrong names."""
        if self.kind not in table.data:
            expected = " or ".join(DATA_NAMES[data] for data in table.data)
            raise InputError(
                f"{self.folder} was prepared from {self.dataset.manifest.source}, a substitute for "
                f"{DATA_NAMES[self.kind]}, but {table.name} is about {expected}: give another dataset with --data, or "
                "another table"
            )

    def resolve_split(self, table: PublishedTable, split: str) -> str:
        """Split to evaluate; ``split`` may be empty, and must be for a table of statistics."""
        if table.protocol == "statistics":
            if split:
                raise InputError(f"got split {split!r}, but {table.name} counts all splits: leave --split out")
            return ""
        split, known = split or _DEFAULT_SPLIT, self.dataset.table.splits
        if table.protocol == "sorting":
            if split != _DEFAULT_SPLIT:
                raise InputError(f"got split {split!r}, but sorters are scored on {_DEFAULT_SPLIT}: leave --split out")
        elif split not in known:
            raise InputError(f"{self.folder} has no split {split!r}: expected one of {', '.join(known)}, --split NAME")
        return split


class RunPaths:
    """Run directories of a reproduction, and the ``sct train`` calls that make them."""

    def __init__(self, config: ReproductionConfig) -> None:
        """Read the recorded runs, if there are any."""
        self._config = config
        self._recorded = {} if config.recorded is None else load_recorded_runs(config.recorded)

    @property
    def folder(self) -> Path:
        """Folder of all run directories."""
        return self._config.runs

    def path(self, run: PlannedRun) -> Path:
        """Run directory."""
        return self._config.runs / run.name

    def best(self, run: PlannedRun) -> Path:
        """Best bundle, or sorter."""
        return self.path(run) / BEST

    def recipe_file(self, run: PlannedRun) -> Path:
        """Recipe file."""
        return self._config.recipes / f"{run.recipe}.toml"

    def is_finished(self, run: PlannedRun) -> bool:
        """Whether a run can be evaluated as it is."""
        is_interrupted = (self.path(run) / LOG).exists() and not (self.path(run) / REPORT).exists()
        return self.best(run).is_dir() and not is_interrupted

    def recorded(self, run: PlannedRun) -> RunRecord:
        """Recorded figures of a run; empty if there are none."""
        return self._recorded.get(run.name, RunRecord())

    def report(self, run: PlannedRun) -> Mapping[str, Any]:
        """Report of a run that ``sct reproduce`` finished, otherwise empty."""
        return read_object(self.path(run) / REPORT) or self.recorded(run).report

    def recipe(self, run: PlannedRun) -> Mapping[str, Any]:
        """Resolved recipe of a run that was started, otherwise empty."""
        path = self.path(run) / RECIPE
        return reading.read_toml(path, "a recipe") if path.exists() else self.recorded(run).recipe

    def missing_chains(self, runs: Sequence[PlannedRun]) -> list[list[PlannedRun]]:
        """Runs to train for the given ones, in chains: each run of a chain starts from the previous one.

        A finished run is used as it is, even if the run that it started from is gone.
        """
        needed: dict[str, PlannedRun] = {}
        for run in runs:
            step: PlannedRun | None = run
            while step is not None and not self.is_finished(step):
                needed.setdefault(step.name, step)
                step = step.start
        chains: dict[str, list[PlannedRun]] = {}
        for run in sorted(needed.values(), key=lambda run: RUN_KINDS.index(run.kind)):
            chains.setdefault(run.chain()[0].name, []).append(run)
        return list(chains.values())

    def overrides(self, run: PlannedRun) -> list[str]:
        """``key=value`` overrides that a run would be started with."""
        config = self._config
        shared: list[str] = []
        if run.kind != "sorter":
            shared += [f"examples.holdout={config.holdout:g}"] if config.holdout else []
            if config.features is not None:
                # A recipe may name a vision encoder, which the store replaces.
                shared += ["examples.vision="] if run.start is None else []
                shared.append(f"examples.features={config.features}")
        elif config.features is not None:
            shared.append(f"features={config.features}")
        overrides = [*self._path_overrides(run), *run.overrides, *shared, *self._user_overrides(run)]
        if run.kind != "sorter":
            if self._config.images:
                overrides.append(f"examples.images={','.join(map(str, self._config.images))}")
            if self._config.device != "auto":
                overrides.append(f"device.accelerator={self._config.device}")
        return overrides

    def check(self, run: PlannedRun) -> None:
        """Reject overrides that the recipe of a run does not have."""
        _recipe_class(run).load(self.recipe_file(run), self.overrides(run))

    def time_budget(self, run: PlannedRun) -> float:
        """Seconds that the user allows a run; 0: no limit."""
        given = [text for text in self._user_overrides(run) if text.startswith("max_seconds=")]
        return float(given[-1].partition("=")[2]) if given else 0.0

    def remaining_time(self, run: PlannedRun) -> list[str]:
        """Override that gives a resumed run its remaining time budget."""
        budget, spent = self.time_budget(run), RunDir.status(self.path(run)).seconds
        return [f"max_seconds={max(budget - spent, _MIN_SECONDS)}"] if budget and spent else []

    def commands(self, run: PlannedRun) -> tuple[str, ...]:
        """``sct train`` commands of the runs that a run starts from, and its own.

        A run that was started is shown with the settings it had, except for device and paths.
        """
        return tuple(self._command(step) for step in run.chain())

    def why_unusable(self, run: PlannedRun, dataset: SubstituteDataset | None) -> str:
        """Reason why a run can be neither used nor started, or empty; ``dataset`` is the one it must be trained on."""
        try:
            self.commands(run)
        except InputError as error:  # a recipe of another version of sct, for example
            return str(error)
        return "" if dataset is None else self.dataset_mismatch(run, dataset)

    def dataset_mismatch(self, run: PlannedRun, dataset: SubstituteDataset) -> str:
        """Reason why a run, or the one that a missing run starts from, is of another dataset; empty if it is not."""
        path = self.path(run)
        if not (self.is_finished(run) or (path / EVALUATION).is_dir() or self.recorded(run).evaluations):
            reason = "" if run.start is None else self.dataset_mismatch(run.start, dataset)
            return reason and f"it would start from another run: {reason}"
        if self._is_trained_on(run, dataset):
            return ""
        return (
            f"{path} was trained on {self.dataset_name(run) or 'another dataset'}, but --data is {dataset.folder}: "
            "remove it to train it again, or give another folder with --runs"
        )

    def dataset_name(self, run: PlannedRun) -> str:
        """Dataset folder that the recipe of a run names; empty if it was not started."""
        return str(self.recipe(run).get("data", ""))

    def _is_trained_on(self, run: PlannedRun, dataset: SubstituteDataset) -> bool:
        report = self.report(run)
        if "dataset" in report:
            return bool(report["dataset"] == dataset.sha256)
        named = Path(self.dataset_name(run) or dataset.folder)
        if (named / TABLE).is_file():
            return sha256_file(named / TABLE) == dataset.sha256
        return named.name == dataset.folder.name  # trained on another machine, or the dataset has moved

    def _command(self, run: PlannedRun) -> str:
        overrides = self._used_overrides(run) if self.recipe(run) else self.overrides(run)
        return shlex.join(["sct", "train", str(self.recipe_file(run)), *overrides])

    def _path_overrides(self, run: PlannedRun) -> list[str]:
        start = [] if run.start is None else [f"from={self.best(run.start)}"]
        return [f"data={self._data(run)}", f"out={self.path(run)}", *start]

    def _data(self, run: PlannedRun) -> Path:
        """Dataset folder of a run: the one at hand, unless it was trained on one of another name."""
        named = Path(self.dataset_name(run) or self._config.data)
        return self._config.data if named.name == self._config.data.name else named

    def _user_overrides(self, run: PlannedRun) -> list[str]:
        return [
            override.text
            for override in map(parse_override, self._config.overrides)
            if ((override.kind == run.kind) if override.kind else run.kind != "sorter")
        ]

    def _used_overrides(self, run: PlannedRun) -> list[str]:
        """Overrides that turn the recipe file into the resolved recipe of a run."""
        kind = _recipe_class(run)
        used = flatten_config(kind.from_toml(dict(self.recipe(run)), self.path(run) / RECIPE))
        plain = flatten_config(kind.load(self.recipe_file(run), self._path_overrides(run)))
        if budget := self.report(run).get("max_seconds"):
            used["max_seconds"] = budget  # over all calls; the recipe of a resumed run has what was left
        ignored = {"data", "out", "from", "examples.images", "device"}
        changed = [
            format_override(key, value)
            for key, value in used.items()
            if value != plain[key] and key not in ignored and not key.startswith("device.")
        ]
        return [*self._path_overrides(run), *changed]


def _recipe_class(run: PlannedRun) -> type[Recipe]:
    return SorterRecipe if run.kind == "sorter" else CaptionerRecipe
