"""Plan a reproduction: the training runs behind each row of a table, and the options that all of them share.

A row is trained in stages, each a recipe and a few overrides. Systems share the recipes of their dataset: the first
stage selects the system by ``model.variant``, later stages take it from the bundle they start from. The first run of a
row has the seed of its recipe and no suffix; the second is ``NAME_seed2``, with seed 2, and so on.
"""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import torch

from sct.errors import InputError
from sct.reproduction.published import OURS, STAGES, Data, PublishedTable, RowKey, Stage

RunKind = Literal["cross_entropy", "cider", "cider_and_nw", "sorter"]
"""Stage of a captioner, or a sorter."""
RUN_KINDS: tuple[RunKind, ...] = get_args(RunKind)
Log = Callable[[str], None]
"""Receives progress messages."""

MULTI_SEED = frozenset({OURS, "controllable_up_down", "svm_rank", "sinkhorn"})
"""Systems that are trained with several seeds."""
SORTER = "sinkhorn"
"""Sorts the region sets of every row of a table of control by sets."""

_CAPTIONER_RECIPES: Mapping[Data, str] = {"coco": "coco_layout", "flickr": "flickr8k_images"}
_SORTER_RECIPES: Mapping[Data, str] = {"coco": "sorter/coco_layout", "flickr": "sorter/flickr8k"}
_OWN_RECIPES = frozenset({"coco_layout/cross_entropy_fc_2k", "coco_layout/cross_entropy_ag_cvae"})
"""Recipes of a single system, where its sizes or schedule differ."""
_UNCONTROLLED = frozenset({"fc_2k", "up_down", "neural_baby_talk", "ag_cvae", "pos"})
_RUN_OPTIONS: Mapping[str, str] = {
    "seed": "--seeds",
    "out": "--runs",
    "from": "--runs",
    "data": "--data",
    "model.variant": "--systems",
    "kind": "--systems",
}
"""Settings that identify a run, with the option that selects runs by them."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run of ``sct train``."""

    name: str
    """Path of its run directory below ``--runs``."""
    recipe: str
    """Path of its recipe below ``--recipes``, without suffix."""
    kind: RunKind
    overrides: tuple[str, ...]
    """``key=value`` overrides of the recipe, apart from paths."""
    start: "PlannedRun | None" = None
    """Run whose best bundle it starts from."""

    def chain(self) -> list["PlannedRun"]:
        """The runs that it starts from, first stage first, and itself."""
        return [*([] if self.start is None else self.start.chain()), self]


def plan_run(key: RowKey, seed: int = 1) -> PlannedRun:
    """Plan the run that is evaluated for a row, and those it starts from; ``seed`` counts from 1.

    >>> run = plan_run(RowKey("coco", "single_sentinel", "cider"), seed=2)
    >>> run.name, run.recipe, run.start.overrides
    ('coco_layout/cider_single_sentinel_seed2', 'coco_layout/cider', ('model.variant=single_sentinel', 'seed=2'))
    """
    seed_override = (f"seed={seed}",) if seed > 1 else ()
    suffix = f"_seed{seed}" if seed > 1 else ""
    if not key.stage:
        recipe = _SORTER_RECIPES[key.data]
        if key.system == SORTER:
            return PlannedRun(f"{recipe}{suffix}", recipe, "sorter", seed_override)
        return PlannedRun(f"{recipe}_{key.system}{suffix}", recipe, "sorter", (f"kind={key.system}", *seed_override))
    recipe = f"{_CAPTIONER_RECIPES[key.data]}/{key.stage}"
    name = recipe if key.system == OURS else f"{recipe}_{key.system}"
    overrides: tuple[str, ...] = ()
    if name in _OWN_RECIPES:
        recipe = name
    elif key.stage == "cross_entropy" and key.system != OURS:
        overrides = (f"model.variant={key.system}",)
    elif key.stage == "cider" and key.data == "coco" and key.system in _UNCONTROLLED:
        overrides = ("optimizer.learning_rate=5e-5",)
    previous = _previous_stage(key.stage)
    start = None if previous is None else plan_run(key._replace(stage=previous), seed)
    return PlannedRun(f"{name}{suffix}", recipe, key.stage, (*overrides, *seed_override), start)


def _previous_stage(stage: Stage) -> Stage | None:
    index = STAGES.index(stage)
    return STAGES[index - 1] if index else None


def num_seeds(system: str, seeds: int) -> int:
    """Number of runs of a system if the multi-seed ones have ``seeds``."""
    return seeds if system in MULTI_SEED else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproductionConfig:
    """Options of ``sct reproduce``, apart from the table."""

    data: Path
    """Dataset folder, written by ``sct prepare``."""
    more_data: tuple[Path, ...] = ()
    """Further dataset folders, for a table of statistics."""
    runs: Path = Path("runs")
    """Folder of run directories."""
    recorded: Path | None = None
    """File of recorded figures (``runs.json``), used for runs that are not in ``runs``."""
    recipes: Path = Path("recipes")
    overrides: tuple[str, ...] = ()
    """``key=value`` for every stage of a captioner, ``cider:key=value`` for one of them, ``sorter:key=value``."""
    split: str = ""
    """Split to caption; default: val, or the whole dataset for statistics."""
    seeds: int = 3
    """Number of runs of each system in ``MULTI_SEED``."""
    metrics: tuple[str, ...] = ()
    """Metrics of the table to compute; default: all."""
    train: bool = True
    """Train runs that are missing."""
    systems: tuple[str, ...] = ()
    """Systems to train; default: all. Finished runs of other systems are used too."""
    jobs: int = 1
    """Number of runs to train at once, and of runs to caption at once."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of training and captioning."""
    images: tuple[Path, ...] = ()
    """Folders or tar files of the dataset's images, if they have moved."""

    def __post_init__(self) -> None:
        """Check everything that can be checked without the dataset."""
        for name in ("seeds", "jobs"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}: expected at least 1")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise InputError("the device is 'cuda', but no GPU was found: use --device cpu or auto")
        require_folder(self.runs, "--runs")
        if not self.recipes.is_dir():
            raise InputError(
                f"{self.recipes} is not a folder, expected recipes: leave out --recipes to use those of sct"
            )
        for text in self.overrides:
            override = parse_override(text)
            if override.kind and override.kind not in RUN_KINDS:
                raise InputError(f"{text!r} is for stage {override.kind!r}: expected {', '.join(RUN_KINDS)}, or none")
            if override.key in _RUN_OPTIONS:
                raise InputError(
                    f"{text!r} would contradict the names of runs: remove {override.key}= and use "
                    f"{_RUN_OPTIONS[override.key]} instead"
                )

    @property
    def torch_device(self) -> str:
        """Device to caption on."""
        if self.device == "auto":
            return "cuda" if torch.cuda.is_available() else "cpu"
        return self.device

    def command(self, table: PublishedTable, out: Path | None) -> str:
        """``sct reproduce`` command with these options; empty ones are left out."""
        options = {
            "--runs": self.runs,
            "--recorded": self.recorded,
            "--recipes": self.recipes,
            "--out": out,
            "--split": self.split,
            "--seeds": self.seeds,
            "--metrics": ",".join(self.metrics),
            "--systems": ",".join(self.systems),
            "--jobs": self.jobs,
            "--device": self.device,
        }
        words = [word for option, value in options.items() if value not in (None, "") for word in (option, str(value))]
        words = [word for path in (self.data, *self.more_data) for word in ("--data", str(path))] + words
        words += [word for path in self.images for word in ("--images", str(path))]
        words += [] if self.train else ["--no-train"]
        return shlex.join(["sct", "reproduce", table.name, *self.overrides, *words])

    def trains(self, key: RowKey) -> bool:
        """Whether missing runs of a row are trained."""
        return self.train and (not self.systems or key.system in self.systems)

    def plan(self, table: PublishedTable) -> dict[RowKey, tuple[PlannedRun, ...]]:
        """The runs of each row, one for each seed."""
        return {
            row.key: tuple(plan_run(row.key, seed + 1) for seed in range(num_seeds(row.key.system, self.seeds)))
            for row in table.rows()
        }

    def select_metrics(self, table: PublishedTable) -> tuple[str, ...]:
        """Metrics of the table that are requested, in its order."""
        if unknown := [name for name in self.metrics if name not in table.metrics]:
            raise InputError(f"{table.name} has no {unknown[0]!r}: expected some of {', '.join(table.metrics)}")
        return tuple(name for name in table.metrics if not self.metrics or name in self.metrics)

    def check_systems(self, table: PublishedTable) -> None:
        """Reject systems that the table does not have."""
        if unknown := [system for system in self.systems if system not in table.systems]:
            raise InputError(f"{table.name} has no system {unknown[0]!r}: expected some of {', '.join(table.systems)}")


class Override(NamedTuple):
    """A ``key=value`` override and the stage it is for."""

    text: str
    """As ``sct train`` takes it."""
    key: str
    kind: str
    """Run kind; empty: every stage of captioners."""


def parse_override(text: str) -> Override:
    """Split off the stage of an override.

    >>> parse_override("cider:max_seconds=60")
    Override(text='max_seconds=60', key='max_seconds', kind='cider')
    """
    name, equals, value = text.partition("=")
    kind, colon, key = name.partition(":")
    if not colon:
        kind, key = "", name
    return Override(f"{key}{equals}{value}", key, kind)


def require_folder(path: Path, option: str) -> None:
    """Reject a path that is a file or lies below one."""
    found = next((part for part in (path, *path.parents) if part.exists()), None)
    if found is not None and not found.is_dir():
        raise InputError(f"{found} is a file, expected a folder: give {option} DIR")
