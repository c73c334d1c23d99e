"""How the rows of a table get their figures: counted, read from a sorter's run, or captioned and scored."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from sct.data.statistics import statistics
from sct.errors import InputError
from sct.reproduction.figures import NOT_RUN, Results, RowResult, RunResult
from sct.reproduction.origin import commands_of, dataset_named, refusal
from sct.reproduction.plan import SORTER, PlannedRun, number_of_seeds, planned_run
from sct.reproduction.predictions import CaptionProtocol
from sct.reproduction.published import PublishedTable, RowKey
from sct.reproduction.request import Request, Say
from sct.reproduction.row_captions import RowCaptions
from sct.reproduction.runs import LOG, Workplace, missing_runs
from sct.reproduction.stand_in import SubstituteDataset
from sct.reproduction.training import Trainer
from sct.training.sorter.data import SCORES as SORTER_SCORES

_BY_SCORES = "probability"
"""The one system that may be of another dataset: a copy with the scores of a detector, which no dataset here has."""
_Runs = Mapping[RowKey, tuple[PlannedRun, ...]]
"""The runs of each row."""


def measured(
    table: PublishedTable, request: Request, data: SubstituteDataset, metrics: Sequence[str], say: Say
) -> Results:
    """Measure what can be measured of every row of a table; ``say`` is told what is being done."""
    known = list(dict.fromkeys(row.key.system for row in table.rows()))
    unknown = [system for system in request.systems if system not in known]
    if unknown:
        raise InputError(f"{table.name} has no system {unknown[0]!r}: expected some of {', '.join(known)}")
    if table.protocol == "statistics":
        return _counted(table, data, metrics, say)
    runs = _planned(table, request)
    sorters = [planned_run(RowKey(data.kind, SORTER, ""))] if table.protocol == "set" else []
    _check_settings(request.place, [*sorters, *(run for of_row in runs.values() for run in of_row)])
    if table.protocol == "sorting":
        return _sorted(runs, request, data, metrics, say)
    return _captioned(runs, table.protocol, request, data, metrics, say)


def _counted(table: PublishedTable, data: SubstituteDataset, metrics: Sequence[str], say: Say) -> Results:
    """The statistics of the dataset, as those of the one that it stands in for."""
    say(f"counting in {data.folder}")
    found, name = statistics(data.dataset.table), data.folder.name
    results = {}
    for row in table.rows():
        split = found.get(row.key.system) if row.key.data == data.kind else None
        run = RunResult(name=name, absent=NOT_RUN)
        if split is not None:
            counts = (split.captions, split.noun_chunks, split.chunks_per_caption, split.classes)
            figures = dict(zip(table.metrics, map(float, counts), strict=True))
            run = RunResult(name=name, data=name, figures={metric: figures[metric] for metric in metrics})
        results[row.key] = RowResult(row.key, (run,))
    return results


def _sorted(runs: _Runs, request: Request, data: SubstituteDataset, metrics: Sequence[str], say: Say) -> Results:
    """The scores of sorters on the val split; those of the dataset at hand are trained if they are missing."""
    place = request.place
    faults = {
        run.name: fault
        for key, of_row in runs.items()
        for run in of_row
        if (fault := refusal(place, run, data if key.data == data.kind and key.system != _BY_SCORES else None))
    }
    expected = {
        key: [run for run in of_row if run.name not in faults and not _sorter_scores(place, run).exists()]
        for key, of_row in runs.items()
        if key.data == data.kind and request.trains(key)
    }
    absent: dict[str, str] = {}
    if not np.nan_to_num(data.dataset.table.columns["region_score"]).any():
        # Without scores of a detector its order would be one by chance.
        by_chance = expected.pop(RowKey(data.kind, _BY_SCORES, ""), [])
        absent = {
            run.name: f"{NOT_RUN}: no region of {data.folder.name} has the score of a detector" for run in by_chance
        }
    faults |= _trained(request, data, [run for of_row in expected.values() for run in of_row], say)

    def result(run: PlannedRun) -> RunResult:
        if run.name not in faults and _sorter_scores(place, run).exists():
            return _sorter_result(place, run, metrics)
        reason = faults.get(run.name) or absent.get(run.name) or _why_not_run(place, run)
        commands = commands_of(place, run)
        return RunResult(name=run.name, commands=commands, absent=reason, has_failed=run.name in faults)

    return {key: RowResult(key, tuple(map(result, of_row))) for key, of_row in runs.items()}


def _captioned(
    runs: _Runs, protocol: CaptionProtocol, request: Request, data: SubstituteDataset, metrics: Sequence[str], say: Say
) -> Results:
    """Captions of every run by the table's protocol, scored."""
    captions = RowCaptions(protocol, request, data, [run for of_row in runs.values() for run in of_row], say)
    expected = [run for key, of_row in runs.items() for run in captions.missing(of_row) if request.trains(key)]
    _trained(request, data, [*captions.sorters(), *expected], say, captions.settle)
    return {key: RowResult(key, tuple(captions.result(run, metrics) for run in of_row)) for key, of_row in runs.items()}


def _check_settings(place: Workplace, runs: Sequence[PlannedRun]) -> None:
    """Refuse settings that a recipe does not know, whether or not it is trained by now."""
    checked: set[str] = set()
    for run in runs:
        step: PlannedRun | None = run
        while step is not None and step.name not in checked:
            place.check(step)
            checked.add(step.name)
            step = step.start


def _planned(table: PublishedTable, request: Request) -> _Runs:
    """The runs of each row, one for each seed."""
    return {
        row.key: tuple(planned_run(row.key, seed + 1) for seed in range(number_of_seeds(row.key.system, request.seeds)))
        for row in table.rows()
    }


def _trained(
    request: Request,
    data: SubstituteDataset,
    expected: Sequence[PlannedRun],
    say: Say,
    settle: Callable[[Mapping[str, str]], None] | None = None,
) -> dict[str, str]:
    """Train what is missing, if that is asked for, and give the faults by name; ``settle`` is called after each run."""
    chains = missing_runs(request.place, expected) if request.train else []
    faults: dict[str, str] = {}
    if settle is not None:
        settle(faults)
    if chains:
        number = sum(map(len, chains))
        say(f"training {number} runs, {request.jobs} at a time; their logs are {request.place.runs}/RUN/{LOG}")
        with closing(Trainer(request.place, request.jobs, data.digest, say).train(chains)) as outcomes:
            for outcome in outcomes:
                say(f"{outcome.run.name} {f'failed: {outcome.fault}' if outcome.fault else 'is trained'}")
                if outcome.fault:
                    faults[outcome.run.name] = outcome.fault
                if settle is not None:
                    settle(faults)
    return faults


def _sorter_scores(place: Workplace, run: PlannedRun) -> Path:
    return place.folder(run) / SORTER_SCORES


def _why_not_run(place: Workplace, run: PlannedRun) -> str:
    """Why a sorter has no scores; one that is done is not trained again behind anybody's back."""
    if not place.is_done(run):
        return NOT_RUN
    return f"{NOT_RUN}: {place.best(run)} is there without {SORTER_SCORES} beside it: remove {place.folder(run)}"


def _sorter_result(place: Workplace, run: PlannedRun, metrics: Sequence[str]) -> RunResult:
    commands = place.commands(run)
    scores = json.loads(_sorter_scores(place, run).read_text(encoding="utf-8"))["val"]
    if scores is None:
        return RunResult(name=run.name, commands=commands, absent="its dataset has nothing to sort in its val split")
    figures = {"accuracy": 100 * scores["accuracy"], "tau": scores["tau"]}
    return RunResult(
        name=run.name,
        data=Path(dataset_named(place.folder(run))).name,
        commands=commands,
        figures={metric: figures[metric] for metric in metrics},
    )
