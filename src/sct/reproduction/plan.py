"""Plan a reproduction: the training runs behind each row of a table, and the options that all of them share.

A row is trained in stages, each a recipe and a few overrides. Systems share the recipes of their dataset: the first
stage selects the system by ``model.variant``, later stages take it from the bundle they start from. Steps, rates and
held-out images are the same for all. The first run of a row has the seed of its recipe and no suffix; the second is
``NAME_seed2``, with seed 2, and so on.
"""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

import torch

from sct.errors import InputError
from sct.reproduction.published import DETERMINISTIC, OURS, STAGES, Data, PublishedTable, RowKey, Stage

RunKind = Literal["cross_entropy", "cider", "cider_and_nw", "sorter"]
"""Stage of a captioner, or a sorter."""
RUN_KINDS: tuple[RunKind, ...] = get_args(RunKind)
Log = Callable[[str], None]
"""Receives progress messages."""

DEFAULT_HOLDOUT = 0.05
"""Fraction of the training images on which captioners are selected."""
SORTER = "sinkhorn"
"""Sorts the region sets of every row of a table of control by sets."""

_CAPTIONER_RECIPES: Mapping[Data, str] = {"coco": "coco_layout", "flickr": "flickr8k_images"}
_SORTER_RECIPES: Mapping[Data, str] = {"coco": "sorter/coco_layout", "flickr": "sorter/flickr8k"}
_OWN_RECIPES = frozenset({"coco_layout/cross_entropy_fc_2k", "coco_layout/cross_entropy_ag_cvae"})
"""Recipes of a single system, where its sizes differ."""
_AS_PRINTED = "ours_as_printed"
_CONTROL_ONLY = "_control_only"
_FLICKR_VISION = "examples.vision=runs/vision/flickr8k/vision.safetensors"
"""Features of the Flickr tables, as in ``flickr8k_images/cross_entropy``."""
_MAX_FACTOR = 100
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


def plan_run(key: RowKey, seed: int = 1, rates: Mapping[str, float] = MappingProxyType({})) -> PlannedRun:
    """Plan the run that is evaluated for a row, and those it starts from; ``seed`` counts from 1.

    ``rates`` are learning rates that a search found, by the name of the first run of a row.

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
        version = "temperature=1.0" if key.system == "sinkhorn_as_printed" else f"kind={key.system}"
        return PlannedRun(f"{recipe}_{key.system}{suffix}", recipe, "sorter", (version, *seed_override))
    recipe = f"{_CAPTIONER_RECIPES[key.data]}/{key.stage}"
    name = recipe if key.system == OURS else f"{recipe}_{key.system}"
    if key.system == _AS_PRINTED:
        recipe = f"paper/{key.stage}"
    elif name in _OWN_RECIPES:
        recipe = name
    rate = (f"optimizer.learning_rate={rates[name]:g}",) if name in rates else ()
    previous = _previous_stage(key)
    start = None if previous is None else plan_run(key._replace(stage=previous), seed, rates)
    overrides = () if recipe == name else _version_overrides(key)
    return PlannedRun(f"{name}{suffix}", recipe, key.stage, (*overrides, *rate, *seed_override), start)


def _version_overrides(key: RowKey) -> tuple[str, ...]:
    """Overrides that turn the recipe of a stage into a system or a version of it."""
    is_first = key.stage == STAGES[0]
    if key.system == _AS_PRINTED:
        return (_FLICKR_VISION,) if is_first and key.data == "flickr" else ()
    if key.system == "ours_no_end_slot":
        return ("model.end_slot=false", "examples.gate_targets=every_chunk") if is_first else ()
    variant = (f"model.variant={key.system.removesuffix(_CONTROL_ONLY)}",) if is_first else ()
    return (*variant, "examples.fill_empty_sets=false") if key.system.endswith(_CONTROL_ONLY) else variant


def _previous_stage(key: RowKey) -> Stage | None:
    """Stage that a stage starts from; as printed, both rewards follow cross-entropy (Sec. 3.2)."""
    index = STAGES.index(key.stage)
    if not index:
        return None
    return STAGES[0] if key.system == _AS_PRINTED else STAGES[index - 1]


def num_seeds(system: str, seeds: int) -> int:
    """Number of runs of a system: ``seeds``, or one if its training has no randomness."""
    return 1 if system in DETERMINISTIC else seeds


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
    features: Path | None = None
    """Region store of the dataset's detections: features of captioners and sorters."""
    holdout: float = DEFAULT_HOLDOUT
    """Fraction of the training images on which captioners are selected; 0: on the val split."""
    vectors: Path | None = None
    """File of further word vectors that NW and IoU are computed with, in columns of their own."""
    learning_rate_factors: tuple[float, ...] = ()
    """Factors of the recipes' learning rates that are tried for every row and stage; empty: no search."""
    rescore: bool = False
    """Compute figures again from recorded captions."""
    recipes: Path = Path("recipes")
    overrides: tuple[str, ...] = ()
    """``key=value`` for every stage of a captioner, ``cider:key=value`` for one of them, ``sorter:key=value``."""
    split: str = ""
    """Split to caption; default: val, or the whole dataset for statistics."""
    seeds: int = 3
    """Number of runs of each system whose training is random."""
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
        if not 0 <= self.holdout < 1:
            raise InputError(f"holdout is {self.holdout}: expected 0 or more and below 1, such as {DEFAULT_HOLDOUT}")
        if any(not 0 < factor <= _MAX_FACTOR for factor in self.learning_rate_factors):
            raise InputError(
                f"got learning-rate factors {', '.join(f'{factor:g}' for factor in self.learning_rate_factors)}, "
                f"expected numbers above 0 and at most {_MAX_FACTOR}, such as 0.5,1,2"
            )
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
            "--features": self.features,
            "--holdout": None if self.holdout == DEFAULT_HOLDOUT else self.holdout,
            "--vectors": self.vectors,
            "--learning-rate-factors": ",".join(f"{factor:g}" for factor in self.learning_rate_factors),
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
        words += ["--rescore"] if self.rescore else []
        return shlex.join(["sct", "reproduce", table.name, *self.overrides, *words])

    def trains(self, key: RowKey) -> bool:
        """Whether missing runs of a row are trained."""
        return self.train and (not self.systems or key.system in self.systems)

    def plan(
        self, table: PublishedTable, rates: Mapping[str, float] = MappingProxyType({})
    ) -> dict[RowKey, tuple[PlannedRun, ...]]:
        """The runs of each row, one for each seed."""
        return {
            row.key: tuple(plan_run(row.key, seed + 1, rates) for seed in range(num_seeds(row.key.system, self.seeds)))
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
