"""Reproduce a table: train missing runs, caption and score every row, compare with the published figures."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch

from sct.errors import InputError
from sct.reproduction.claims import Reproduction, compare
from sct.reproduction.learning_rates import read_rates, search_rates
from sct.reproduction.plan import SORTER, Log, PlannedRun, ReproductionConfig, plan_run
from sct.reproduction.predictions import (
    CaptionProtocol,
    PredictionCache,
    PredictionDir,
    compute_scores,
    evaluation_name,
    with_vectors,
)
from sct.reproduction.published import PublishedTable, RowKey
from sct.reproduction.records import read_object
from sct.reproduction.results import NOT_RUN, Results, RowResult, RunResult
from sct.reproduction.runs import RunPaths, SubstituteDataset
from sct.reproduction.statistics import make_table_1
from sct.reproduction.train_missing import is_cuda_oom, train_missing
from sct.training.sorter.trainer import SCORES as SORTER_SCORES

_DETECTION_PROBABILITY = "detection_probability"
"""Sorter that may be of another dataset: a copy with detector scores, which the datasets here do not have."""
_Runs = Mapping[RowKey, tuple[PlannedRun, ...]]
"""Runs of each row."""


def reproduce(table: PublishedTable, config: ReproductionConfig, log: Log) -> Reproduction:
    """Reproduce a table of the paper.

    Whatever is trained, captioned or scored already is read from the run directories, so that an interrupted call can
    be repeated.
    """
    metrics = with_vectors(config.select_metrics(table), config.vectors)
    data = SubstituteDataset.open(config.data)
    data.check_table(table)
    config = replace(config, split=data.resolve_split(table, config.split))
    if table.protocol == "statistics":
        config.check_systems(table)
        datasets = [data, *map(SubstituteDataset.open, config.more_data)]
        counted = make_table_1(table, datasets, metrics, log)
        return replace(compare(table, data.folder.name, "", metrics, counted.results), differences=counted.differences)
    if config.more_data:
        raise InputError(f"got several datasets, but {table.name} is about one: give --data once")
    results = evaluate_rows(table, config, data, metrics, log)
    return compare(table, config.data.name, config.split, metrics, results)


def evaluate_rows(
    table: PublishedTable, config: ReproductionConfig, data: SubstituteDataset, metrics: Sequence[str], log: Log
) -> Results:
    """Measure every row of a table of captioners or sorters, training missing runs first if ``config`` says so."""
    assert table.protocol != "statistics"
    config.check_systems(table)
    paths = RunPaths(config)
    if config.learning_rate_factors and config.train:
        search_rates(table, config, paths, data, log)
    runs = config.plan(table, read_rates(config.runs))
    sorters = [plan_run(RowKey(data.kind, SORTER, ""))] if table.protocol == "set" else []
    for step in {step.name: step for run in [*sorters, *_flat(runs)] for step in run.chain()}.values():
        paths.check(step)
    if table.protocol == "sorting":
        return _sorter_scores(runs, config, paths, data, metrics, log)
    return _caption_scores(runs, table.protocol, config, paths, data, metrics, log)


def _flat(runs: _Runs) -> list[PlannedRun]:
    return [run for row_runs in runs.values() for run in row_runs]


def _sorter_scores(
    runs: _Runs,
    config: ReproductionConfig,
    paths: RunPaths,
    data: SubstituteDataset,
    metrics: Sequence[str],
    log: Log,
) -> Results:
    """Scores of sorters on the val split; sorters of the dataset at hand are trained if they are missing."""
    errors = {
        run.name: reason
        for key, row_runs in runs.items()
        for run in row_runs
        if (
            reason := paths.why_unusable(
                run, data if key.data == data.kind and key.system != _DETECTION_PROBABILITY else None
            )
        )
    }
    required = {
        key: [run for run in row_runs if run.name not in errors and not (paths.path(run) / SORTER_SCORES).exists()]
        for key, row_runs in runs.items()
        if key.data == data.kind and config.trains(key)
    }
    of_dataset = {run.name for key, row_runs in runs.items() if key.data == data.kind for run in row_runs}
    not_run: dict[str, str] = {}
    if not np.nan_to_num(data.dataset.table.columns["region_score"]).any():
        # Without detector scores the order would be arbitrary.
        unscored = required.pop(RowKey(data.kind, _DETECTION_PROBABILITY, ""), [])
        not_run = {run.name: f"{NOT_RUN}: regions of {data.folder.name} have no detector scores" for run in unscored}
    missing = [run for row_runs in required.values() for run in row_runs]
    with train_missing(paths, missing, jobs=config.jobs, dataset_sha256=data.sha256, log=log) as outcomes:
        for outcome in outcomes:
            log(f"{outcome.run.name} {f'failed: {outcome.error}' if outcome.error else 'is trained'}")
            if outcome.error:
                errors[outcome.run.name] = outcome.error

    def result(run: PlannedRun) -> RunResult:
        # Of a run that was not started, the command could name the wrong dataset.
        is_known = run.name in of_dataset or bool(paths.recipe(run))
        commands = _commands(paths, run) if is_known else ()
        scores_file = paths.path(run) / SORTER_SCORES
        if run.name in errors or not scores_file.exists():
            reason = errors.get(run.name) or not_run.get(run.name) or NOT_RUN
            if reason == NOT_RUN and paths.is_finished(run):
                reason = (
                    f"{NOT_RUN}: {paths.best(run)} has no {SORTER_SCORES}: remove {paths.path(run)} to train it again"
                )
            return RunResult(name=run.name, commands=commands, missing_reason=reason, failed=run.name in errors)
        scores = read_object(scores_file)["val"]
        if scores is None:
            reason = "the val split of its dataset has nothing to sort"
            return RunResult(name=run.name, commands=commands, missing_reason=reason)
        figures = {"accuracy": 100 * scores["accuracy"], "tau": scores["tau"]}
        return RunResult(
            name=run.name,
            data=Path(paths.dataset_name(run)).name,
            commands=commands,
            figures={metric: figures[metric] for metric in metrics},
        )

    return {key: RowResult(key, tuple(map(result, row_runs))) for key, row_runs in runs.items()}


def _caption_scores(
    runs: _Runs,
    protocol: CaptionProtocol,
    config: ReproductionConfig,
    paths: RunPaths,
    data: SubstituteDataset,
    metrics: Sequence[str],
    log: Log,
) -> Results:
    """Caption with every run by the table's protocol, as soon as it is trained, then score the captions."""
    predictions = _RowPredictions(protocol, config, paths, data, _flat(runs), log)
    required = [run for key, row_runs in runs.items() for run in predictions.missing(row_runs) if config.trains(key)]
    training = [*predictions.required_sorters(), *required] if config.train else []
    with (
        _worker_processes(config.jobs) as pool,
        train_missing(paths, training, jobs=config.jobs, dataset_sha256=data.sha256, log=log) as outcomes,
    ):
        predictions.update(pool)
        for outcome in outcomes:
            log(f"{outcome.run.name} {f'failed: {outcome.error}' if outcome.error else 'is trained'}")
            if outcome.error:
                predictions.errors[outcome.run.name] = outcome.error
            predictions.update(pool)
        predictions.finish(pool)
    return {
        key: RowResult(key, tuple(predictions.result(run, metrics) for run in row_runs))
        for key, row_runs in runs.items()
    }


@contextmanager
def _worker_processes(jobs: int) -> Iterator[ProcessPoolExecutor | None]:
    """Processes to caption in; None for a single job, which captions in this process."""
    if jobs == 1:
        yield None
        return
    # Ctrl-C ends workers without a traceback; CUDA does not survive a fork.
    pool = ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _predict_in_worker(config: ReproductionConfig, out: PredictionDir, best: Path, sorter: Path | None) -> None:
    _worker_cache(config).predict(out, best, sorter)
    torch.cuda.empty_cache()


@cache
def _worker_cache(config: ReproductionConfig) -> PredictionCache:
    """Cache of this worker process, which opens the dataset and computes region features once."""
    data = SubstituteDataset.open(config.data)
    return PredictionCache(
        data, config.split, device=config.torch_device, images=config.images, features=config.features
    )


class _RowPredictions:
    """Predictions of all runs of a table: which are missing, which are being made, and why some failed."""

    def __init__(
        self,
        protocol: CaptionProtocol,
        config: ReproductionConfig,
        paths: RunPaths,
        data: SubstituteDataset,
        runs: Sequence[PlannedRun],
        log: Log,
    ) -> None:
        self._protocol, self._config, self._paths, self._data, self._log = protocol, config, paths, data, log
        self._cache = PredictionCache(
            data, config.split, device=config.torch_device, images=config.images, features=config.features
        )
        self._sorter = plan_run(RowKey(data.kind, SORTER, "")) if protocol == "set" else None
        self.errors = {run.name: reason for run in runs if (reason := paths.why_unusable(run, data))}
        """Why a run failed or cannot be used, by name."""
        if self._sorter is not None and (reason := paths.dataset_mismatch(self._sorter, data)):
            self.errors = {run.name: f"its sorter cannot be used: {reason}" for run in runs} | self.errors
        self._out_of_memory: dict[str, str] = {}
        self._pending: dict[str, Future[None]] = {}
        self._runs = runs
        self._missing = self._find_missing()

    def missing(self, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
        """Those of the runs whose predictions are missing and that did not fail."""
        return [run for run in runs if run.name in self._missing and run.name not in self.errors]

    def required_sorters(self) -> list[PlannedRun]:
        """The sorter, if missing predictions need it."""
        return [self._sorter] if self._sorter is not None and self.missing(self._runs) else []

    def update(self, pool: ProcessPoolExecutor | None) -> None:
        """Caption with every run that is finished by now, in worker processes if there are any.

        A run that was out of memory is tried again. One whose scores were recorded may have been trained anew, because
        a later stage starts from it, and is then captioned anew.
        """
        for name in [name for name, future in self._pending.items() if future.done()]:
            self._record_outcome(name, self._pending.pop(name).result)
        self._missing = self._find_missing()
        if self._sorter is not None and not self._paths.is_finished(self._sorter):
            return
        for run in self.missing(self._runs):
            if run.name in self._pending or not self._paths.is_finished(run):
                continue
            self._log(f"captioning with {self._paths.best(run)}, {self._protocol}")
            arguments = (self._out(run), self._paths.best(run), self._sorter_path())
            if pool is None:
                self._record_outcome(run.name, partial(self._cache.predict, *arguments))
                torch.cuda.empty_cache()  # for training processes
            else:
                try:
                    self._pending[run.name] = pool.submit(_predict_in_worker, self._config, *arguments)
                except BrokenExecutor:  # a worker was killed, so ``finish`` captions in this process
                    return

    def finish(self, pool: ProcessPoolExecutor | None) -> None:
        """Wait for the worker processes, then retry here what was out of memory next to other work."""
        if pool is not None:
            wait(self._pending.values())
            self.update(None)

    def _record_outcome(self, name: str, predict: Callable[[], None]) -> None:
        """Get the outcome of a prediction; errors are kept for the result of its run."""
        try:
            predict()
        except RuntimeError as error:
            if not (is_cuda_oom(str(error)) or isinstance(error, BrokenExecutor)):
                raise
            self._out_of_memory[name] = str(error)
            self._log(f"no captions of {name} for now: {error}")
        except (InputError, OSError) as error:
            self.errors[name] = str(error)
            self._log(f"{name} failed: {error}")
        else:
            self._missing.pop(name, None)

    def result(self, run: PlannedRun, metrics: Sequence[str]) -> RunResult:
        """Score the predictions of a run, or say why there are none."""
        commands, out = _commands(self._paths, run), self._out(run)
        if run.name not in self._missing and run.name not in self.errors:
            scores = compute_scores(out, metrics, self._log, self._config.vectors)
            return RunResult(
                name=run.name,
                data=self._data.folder.name,
                commands=commands,
                figures=scores.figures,
                unavailable=scores.unavailable,
                vectors=scores.vectors or "",
            )
        error = self.errors.get(run.name) or self._out_of_memory.get(run.name, "")
        if not error and self._sorter is not None and self._sorter.name in self.errors:
            error = f"its sorter failed: {self.errors[self._sorter.name]}"
        reason = error or NOT_RUN
        if not error and out.exists:
            reason = f"{NOT_RUN}: the predictions in {out.path} are of another model, dataset or search"
        return RunResult(name=run.name, commands=commands, missing_reason=reason, failed=bool(error))

    def _find_missing(self) -> dict[str, PlannedRun]:
        """Runs without current predictions."""
        sorter = self._sorter_path()
        return {
            run.name: run
            for run in self._runs
            if not self._cache.is_current(self._out(run), self._paths.best(run), sorter)
        }

    def _out(self, run: PlannedRun) -> PredictionDir:
        recorded = self._paths.recorded(run).evaluations.get(evaluation_name(self._protocol, self._config.split), {})
        path, config = self._paths.path(run), self._config
        return PredictionDir(path, self._protocol, config.split, recorded, config.rescore)

    def _sorter_path(self) -> Path | None:
        if self._sorter is None or not self._paths.is_finished(self._sorter):
            return None
        return self._paths.best(self._sorter)


def _commands(paths: RunPaths, run: PlannedRun) -> tuple[str, ...]:
    """Commands that train a run; empty if a recipe cannot be read, which is then reported as an error of the run."""
    try:
        return paths.commands(run)
    except InputError:
        return ()
