"""How the rows of a table get their figures: counted, read from a sorter's run, or captioned and scored."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from sct.data.dataset import Dataset
from sct.data.statistics import statistics
from sct.errors import InputError
from sct.reproduction.figures import RowResult, RunResult
from sct.reproduction.plan import SORTER, PlannedRun, number_of_seeds, planned_run
from sct.reproduction.predictions import CaptionProtocol, PredictionPlace, Speaker
from sct.reproduction.published import Data, PublishedTable, RowKey
from sct.reproduction.runs import Workplace, missing_runs
from sct.reproduction.scores import scores_of
from sct.reproduction.training import Trainer
from sct.training.sorter_results import SCORES as SORTER_SCORES

Say = Callable[[str], None]
Results = Mapping[RowKey, RowResult]
NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be made again, and how."""

    place: Workplace
    split: str = "val"
    seeds: int = 3
    """How often ours and its nearest rival are trained."""
    metrics: tuple[str, ...] = ()
    """Those of the table that are wanted; none: all."""
    train: bool = True
    """Whether runs that are missing are trained."""
    systems: tuple[str, ...] = ()
    """Those that are trained; none: all. Finished runs of the others are taken too."""
    jobs: int = 1
    """How many are trained at once."""
    device: str = "cpu"
    """What captions are said on."""

    def __post_init__(self) -> None:
        """Refuse no runs at all."""
        for name in ("seeds", "jobs"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}: wanted at least 1")


def measured(table: PublishedTable, request: Request, metrics: Sequence[str], say: Say) -> Results:
    """Measure what can be measured of every row of a table; ``say`` is told what is being done."""
    known = list(dict.fromkeys(row.key.system for row in table.rows()))
    unknown = [system for system in request.systems if system not in known]
    if unknown:
        raise InputError(f"{table.name} has no system {unknown[0]!r}: wanted some of {', '.join(known)}")
    if table.protocol == "statistics":
        return _counted(table, request, metrics, say)
    if table.protocol == "sorting":
        return _sorted(table, request, metrics, say)
    return _captioned(table, table.protocol, request, metrics, say)


def _counted(table: PublishedTable, request: Request, metrics: Sequence[str], say: Say) -> Results:
    """The statistics of the dataset, as those of the one that it stands in for."""
    say(f"counting in {request.place.data}")
    dataset, name = Dataset.open(request.place.data), request.place.data.name
    found = statistics(dataset.table)
    results = {}
    for row in table.rows():
        split = found.get(row.key.system) if row.key.data == _stands_in_for(dataset) else None
        run = RunResult(name=name, absent=NOT_RUN)
        if split is not None:
            counts = (split.captions, split.noun_chunks, split.chunks_per_caption, split.classes)
            figures = dict(zip(table.metrics, map(float, counts), strict=True))
            run = RunResult(name=name, figures={metric: figures[metric] for metric in metrics})
        results[row.key] = RowResult(row.key, (run,))
    return results


def _sorted(table: PublishedTable, request: Request, metrics: Sequence[str], say: Say) -> Results:
    """The scores of sorters on the val split; those of the dataset at hand are trained if they are missing."""
    place, dataset = request.place, Dataset.open(request.place.data)
    runs = _planned(table, request)
    wanted = {
        key: [run for run in of_row if not _sorter_scores(place, run).exists()]
        for key, of_row in runs.items()
        if key.data == _stands_in_for(dataset) and request.trains(key)
    }
    absent: dict[str, str] = {}
    if not np.nan_to_num(dataset.table.columns["region_score"]).any():
        # Without scores of a detector its order would be one by chance.
        by_chance = wanted.pop(RowKey(_stands_in_for(dataset), "probability", ""), [])
        absent = {
            run.name: f"{NOT_RUN}: no region of {place.data.name} has the score of a detector" for run in by_chance
        }
    faults = _trained(request, [run for of_row in wanted.values() for run in of_row], say)

    def result(run: PlannedRun) -> RunResult:
        if _sorter_scores(place, run).exists():
            return _sorter_result(place, run, metrics)
        reason = faults.get(run.name) or absent.get(run.name, NOT_RUN)
        return RunResult(name=run.name, commands=_commands(place, run), absent=reason, has_failed=run.name in faults)

    return {key: RowResult(key, tuple(map(result, of_row))) for key, of_row in runs.items()}


def _captioned(
    table: PublishedTable, protocol: CaptionProtocol, request: Request, metrics: Sequence[str], say: Say
) -> Results:
    """Captions of every run by the table's protocol, scored."""
    runs = _planned(table, request)
    captions = _Captions(protocol, request, next(iter(runs)).data, say)
    wanted = [captions.missing(of_row) for key, of_row in runs.items() if captions.missing(of_row) and request.trains(key)]
    return {key: RowResult(key, tuple(captions.result(run, metrics) for run in of_row)) for key, of_row in runs.items()}


class _Captions:
    """Has runs caption as soon as they can, and remembers why some could not."""

    def __init__(self, protocol: CaptionProtocol, request: Request, data: Data, say: Say) -> None:
        self._protocol, self._request, self._say = protocol, request, say
        place = request.place
        self._speaker = Speaker(place.data, request.split, device=request.device, pictures=place.pictures)
        self._sorter = planned_run(RowKey(data, SORTER, "")) if protocol == "set" else None
        self._missing: dict[str, PlannedRun] = {}
        self._faults: dict[str, str] = {}

    def want(self, runs: Sequence[PlannedRun]) -> None:
        place = self._request.place
        for run in runs:
            if not self._speaker.has_said(self._place_of(run), place.best(run), self._sorter_folder()):
                self._missing[run.name] = run

    def missing_runs(self) -> list[PlannedRun]:
        """Runs whose captions are missing, and the sorter if they need it."""
        needed = [self._sorter] if self._missing and self._sorter is not None else []
        return [*needed, *self._missing.values()]

    def settle(self, faults: Mapping[str, str]) -> None:
        """Have every run caption that is done by now; ``faults`` are those of training."""
        self._faults |= faults
        place = self._request.place
        if self._sorter is not None and not place.is_done(self._sorter):
            return
        for run in [run for run in self._missing.values() if run.name not in self._faults and place.is_done(run)]:
            self._say(f"captioning with {place.best(run)}, {self._protocol}")
            try:
                self._speaker.say(self._place_of(run), place.best(run), self._sorter_folder())
            except (InputError, OSError, torch.OutOfMemoryError) as error:
                self._faults[run.name] = str(error)
                self._say(f"{run.name} failed: {error}")
            else:
                del self._missing[run.name]

    def result(self, run: PlannedRun, metrics: Sequence[str]) -> RunResult:
        commands = _commands(self._request.place, run)
        if run.name not in self._missing:
            scores = scores_of(self._place_of(run), metrics, self._say)
            return RunResult(name=run.name, commands=commands, figures=scores.figures, reasons=scores.reasons)
        of_sorter = self._faults.get(self._sorter.name, "") if self._sorter is not None else ""
        fault = self._faults.get(run.name) or (of_sorter and f"its sorter failed: {of_sorter}")
        return RunResult(name=run.name, commands=commands, absent=fault or NOT_RUN, has_failed=bool(fault))

    def _place_of(self, run: PlannedRun) -> PredictionPlace:
        return PredictionPlace(self._request.place.folder(run), self._protocol, self._request.split)

    def _sorter_folder(self) -> Path | None:
        place = self._request.place
        is_there = self._sorter is not None and place.is_done(self._sorter)
        return place.best(self._sorter) if self._sorter is not None and is_there else None


def _planned(table: PublishedTable, request: Request) -> dict[RowKey, tuple[PlannedRun, ...]]:
    """The runs of each row, one for each seed."""
    return {
        row.key: tuple(planned_run(row.key, seed + 1) for seed in range(number_of_seeds(row.key.system, request.seeds)))
        for row in table.rows()
    }


def _trained(
    request: Request,
    wanted: Sequence[PlannedRun],
    say: Say,
    settle: Callable[[Mapping[str, str]], None] | None = None,
) -> dict[str, str]:
    """Train what is missing, if that is asked for, and give the faults by name; ``settle`` is called after each run."""
    chains = missing_runs(request.place, wanted) if request.train else []
    faults: dict[str, str] = {}
    if settle is not None:
        settle(faults)
    if chains:
        say(
            f"training {sum(map(len, chains))} runs, {request.jobs} at a time; their logs are {request.place.runs}/RUN/"
        )
        with closing(Trainer(request.place, request.jobs).train(chains)) as outcomes:
            for outcome in outcomes:
                say(f"{outcome.run.name} {f'failed: {outcome.fault}' if outcome.fault else 'is trained'}")
                if outcome.fault:
                    faults[outcome.run.name] = outcome.fault
                if settle is not None:
                    settle(faults)
    return faults


def _sorter_scores(place: Workplace, run: PlannedRun) -> Path:
    return place.folder(run) / SORTER_SCORES


def _sorter_result(place: Workplace, run: PlannedRun, metrics: Sequence[str]) -> RunResult:
    commands = _commands(place, run)
    scores = json.loads(_sorter_scores(place, run).read_text(encoding="utf-8"))["val"]
    if scores is None:
        return RunResult(name=run.name, commands=commands, absent="its dataset has nothing to sort in its val split")
    figures = {"accuracy": 100 * scores["accuracy"], "tau": scores["tau"]}
    return RunResult(name=run.name, commands=commands, figures={metric: figures[metric] for metric in metrics})


def _commands(place: Workplace, run: PlannedRun) -> tuple[str, ...]:
    before = () if run.start is None else _commands(place, run.start)
    return (*before, place.command(run))


def _stands_in_for(dataset: Dataset) -> Data:
    """Which of the paper's datasets one stands in for: COCO's, or the one with boxes that people drew."""
    return "coco" if "coco" in dataset.manifest.source.lower() else "flickr"
