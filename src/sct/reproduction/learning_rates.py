"""Search of learning rates: the same factors of the recipes' rates for every row and stage, on one seed.

Candidates are trained below ``runs/search``, stage after stage, each from the best candidate of the stage before, and
compared by their best score, CIDEr on the held-out training images. ``runs/learning_rates.json`` records all of them;
runs that are trained later use the rates found.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sct.errors import InputError
from sct.reproduction.plan import Log, PlannedRun, ReproductionConfig, plan_run
from sct.reproduction.published import STAGES, PublishedTable
from sct.reproduction.records import read_object
from sct.reproduction.runs import RunPaths, SubstituteDataset
from sct.reproduction.train_missing import train_missing
from sct.storage.atomic import atomic_write
from sct.training.captioner.config import CaptionerRecipe

LEARNING_RATES = "learning_rates.json"
_FOLDER = "search"


def read_rates(runs: Path) -> dict[str, float]:
    """Read the rates that a search found, by the name of the first run of a row; empty without a search."""
    return {name: float(found["chosen"]) for name, found in read_object(runs / LEARNING_RATES).items()}


def search_rates(
    table: PublishedTable, config: ReproductionConfig, paths: RunPaths, data: SubstituteDataset, log: Log
) -> None:
    """Search the rates of all rows of a table that are trained here and have none yet."""
    keys = [row.key for row in table.rows() if row.key.stage and config.trains(row.key)]
    steps = {step.name: step for key in keys for step in plan_run(key).chain()}
    for stage in STAGES:
        found = read_object(config.runs / LEARNING_RATES)
        missing = [step for step in steps.values() if step.kind == stage and step.name not in found]
        candidates = {step.name: _candidates(step, config, paths, found) for step in missing}
        _train([run for runs in candidates.values() for run in runs.values()], config, paths, data, log)
        for name, runs in candidates.items():
            scores = {rate: paths.report(run).get("best_score") for rate, run in runs.items()}
            found[name] = choose(scores, {rate: run.name for rate, run in runs.items()})
            log(f"{name}: learning rate {found[name]['chosen']:g} of {', '.join(f'{rate:g}' for rate in scores)}")
        if missing:
            with atomic_write(config.runs / LEARNING_RATES) as file:
                file.write(json.dumps(found, indent=1).encode("utf-8"))


def choose(scores: Mapping[float, float | None], runs: Mapping[float, str]) -> dict[str, Any]:
    """Record of a search: the rate with the best score, and what each candidate scored.

    >>> choose({1e-4: 80.0, 2e-4: 82.5, 4e-4: None}, {1e-4: "a", 2e-4: "b", 4e-4: "c"})["chosen"]
    0.0002
    """
    known = {rate: score for rate, score in scores.items() if score is not None}
    if not known:
        raise InputError(
            f"no candidate of the learning-rate search was trained ({', '.join(runs.values())}): see their "
            "reproduction.log, or leave out --learning-rate-factors"
        )
    candidates = [{"rate": rate, "score": score, "run": runs[rate]} for rate, score in scores.items()]
    return {"chosen": max(known, key=lambda rate: known[rate]), "candidates": candidates}


def _candidates(
    step: PlannedRun, config: ReproductionConfig, paths: RunPaths, found: Mapping[str, Any]
) -> dict[float, PlannedRun]:
    """Runs of one stage by learning rate; they start from the best candidate of the stage before."""
    recipe = CaptionerRecipe.load(paths.recipe_file(step), paths.overrides(step))
    start = None
    if step.start is not None:
        before = found[step.start.name]
        best = next(each["run"] for each in before["candidates"] if each["rate"] == before["chosen"])
        start = PlannedRun(best, step.start.recipe, step.start.kind, step.start.overrides)
    candidates = {}
    for factor in config.learning_rate_factors:
        rate = float(f"{factor * recipe.optimizer.learning_rate:.6g}")
        overrides = (*step.overrides, f"optimizer.learning_rate={rate:g}")
        candidates[rate] = PlannedRun(f"{_FOLDER}/{step.name}_lr{rate:g}", step.recipe, step.kind, overrides, start)
    return candidates


def _train(
    runs: Sequence[PlannedRun], config: ReproductionConfig, paths: RunPaths, data: SubstituteDataset, log: Log
) -> None:
    with train_missing(paths, runs, jobs=config.jobs, dataset_sha256=data.sha256, log=log) as outcomes:
        for outcome in outcomes:
            log(f"{outcome.run.name} {f'failed: {outcome.error}' if outcome.error else 'is trained'}")
