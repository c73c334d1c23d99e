"""How the rows of a table get their figures: counted, read from a sorter's run, or captioned and scored."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from sct.data.dataset import Dataset
from sct.data.statistics import statistics
from sct.errors import InputError
from sct.reproduction.figures import NOT_RUN, RowResult, RunResult
from sct.reproduction.plan import PlannedRun, number_of_seeds, planned_run
from sct.reproduction.predictions import CaptionProtocol
from sct.reproduction.published import Data, PublishedTable, RowKey
from sct.reproduction.request import Request, Say
from sct.reproduction.row_captions import RowCaptions
from sct.reproduction.runs import LOG, Workplace, missing_runs
from sct.reproduction.training import Trainer
from sct.training.sorter_results import SCORES as SORTER_SCORES

Results = Mapping[RowKey, RowResult]


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
        return RunResult(name=run.name, commands=place.commands(run), absent=reason, has_failed=run.name in faults)

    return {key: RowResult(key, tuple(map(result, of_row))) for key, of_row in runs.items()}


def _captioned(
    table: PublishedTable, protocol: CaptionProtocol, request: Request, metrics: Sequence[str], say: Say
) -> Results:
    """Captions of every run by the table's protocol, scored."""
    runs = _planned(table, request)
    captions = RowCaptions(protocol, request, runs, say)
    wanted = [run for key, of_row in runs.items() for run in captions.missing(of_row) if request.trains(key)]
    _trained(request, [*captions.sorters(), *wanted], say, captions.settle)
    return {key: RowResult(key, tuple(captions.result(run, metrics) for run in of_row)) for key, of_row in runs.items()}


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
    for run in [run for chain in chains for run in chain]:
        request.place.check(run)
    faults: dict[str, str] = {}
    if settle is not None:
        settle(faults)
    if chains:
        number = sum(map(len, chains))
        say(f"training {number} runs, {request.jobs} at a time; their logs are {request.place.runs}/RUN/{LOG}")
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
    commands = place.commands(run)
    scores = json.loads(_sorter_scores(place, run).read_text(encoding="utf-8"))["val"]
    if scores is None:
        return RunResult(name=run.name, commands=commands, absent="its dataset has nothing to sort in its val split")
    figures = {"accuracy": 100 * scores["accuracy"], "tau": scores["tau"]}
    return RunResult(name=run.name, commands=commands, figures={metric: figures[metric] for metric in metrics})


def _stands_in_for(dataset: Dataset) -> Data:
    """Which of the paper's datasets one stands in for: COCO's, or the one with boxes that people drew."""
    return "coco" if "coco" in dataset.manifest.source.lower() else "flickr"
