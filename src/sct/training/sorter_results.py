"""What a run of a sorter leaves behind: the sorter, by itself or in a bundle, and its scores."""

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from sct.atomic import written_whole
from sct.model.bundle import add_sorter
from sct.sorting import OrderScores, SetSorter, Sorter, save_sorter
from sct.training.checkpoint import Facts
from sct.training.sorter_data import SorterLessons, SortingData, score_sorter
from sct.training.sorter_recipe import SorterRecipe

BEST, SCORES = "best", "scores.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class SorterReport:
    """How a run ended."""

    out: str
    kind: str
    epochs: int
    seconds: float
    """Spent on training, over all calls."""
    held_out: OrderScores | None
    """Of the best epoch, on images of the training split that were not learned from."""
    val: OrderScores | None
    """The same sorter on the val split; none where there is none, or the run is not done."""
    val_by_sets: dict[int, OrderScores]
    """By how many sets a control has."""
    val_by_people: OrderScores | None
    """Of the captions that people grounded; none where the builder grounded all."""
    finished: bool
    """Whether the recipe is done; if not, --resume goes on."""
    reason: str
    """Why it ended, for people."""


def finish(
    recipe: SorterRecipe,
    lessons: SorterLessons,
    sorter: SetSorter,
    held_out: OrderScores | None,
    facts: Facts,
    reason: str,
) -> SorterReport:
    """Look at the val split, once, and write the sorter."""
    report = report_of(recipe, facts, held_out, finished=True, reason=reason)
    if lessons.val is not None:
        report = replace(report, **_val_scores(sorter.sorter, lessons.val, recipe.device))
    _write_best(Path(recipe.out) / BEST, recipe, sorter, report.val)
    with written_whole(Path(recipe.out) / SCORES) as file:
        file.write(json.dumps(asdict(report), indent=1).encode("utf-8"))
    return report


def _val_scores(sorter: Sorter, data: SortingData, device: str) -> dict[str, Any]:
    def scores(chosen: Bool[np.ndarray, " controls"]) -> OrderScores:
        return score_sorter(sorter, data, device, np.flatnonzero(chosen))

    by_people = data.controls.by_people
    return {
        "val": score_sorter(sorter, data, device),
        "val_by_sets": {sets: scores(data.num_sets == sets) for sets in np.unique(data.num_sets).tolist()},
        "val_by_people": scores(by_people) if by_people.any() else None,
    }


def report_of(
    recipe: SorterRecipe,
    facts: Facts,
    held_out: OrderScores | None,
    *,
    finished: bool,
    reason: str,
) -> SorterReport:
    """What can be said before the val split is looked at."""
    return SorterReport(
        out=recipe.out,
        kind=recipe.kind,
        epochs=facts.epoch,
        seconds=facts.seconds,
        held_out=held_out,
        val=None,
        val_by_sets={},
        val_by_people=None,
        finished=finished,
        reason=reason,
    )


def _write_best(best: Path, recipe: SorterRecipe, sorter: SetSorter, val: OrderScores | None) -> None:
    """Write the sorter, or the bundle with it, beside its place and move it there whole."""
    about: dict[str, str | int | float | bool] = {"data": Path(recipe.data).name, "seed": recipe.seed}
    if val is not None:
        about |= {"val_accuracy": 100 * val.accuracy, "val_tau": val.tau}
    part = best.with_name(f".{best.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    if recipe.start:
        add_sorter(Path(recipe.start), sorter, part, provenance=about)
    else:
        save_sorter(part, sorter, provenance=about)
    shutil.rmtree(best, ignore_errors=True)
    part.rename(best)
