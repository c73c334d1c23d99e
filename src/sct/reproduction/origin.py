"""Where a run that is there comes from: the commands that make it, and whether it learned from the dataset at hand."""

from pathlib import Path

from sct.data.dataset import TABLE
from sct.errors import InputError
from sct.reproduction.plan import PlannedRun
from sct.reproduction.predictions import EVALUATION
from sct.reproduction.runs import Workplace
from sct.reproduction.stand_in import SubstituteDataset
from sct.storage.artifacts import sha256_file
from sct.training.config import read_settings_file
from sct.training.run_dir import RECIPE


def refusal(place: Workplace, run: PlannedRun, data: SubstituteDataset | None) -> str:
    """Why a run can be neither taken nor begun; empty: it can. It must be of ``data`` if that is given."""
    try:
        place.commands(run)
    except InputError as error:  # its recipe, or that of what it started from, is of an sct that knew other settings
        return str(error)
    return "" if data is None else other_data(place, run, data)


def commands_of(place: Workplace, run: PlannedRun) -> tuple[str, ...]:
    """What somebody would type to have a run, and what it starts from; nothing where a recipe cannot be read."""
    try:
        return place.commands(run)
    except InputError:  # which is why the run was refused
        return ()


def other_data(place: Workplace, run: PlannedRun, data: SubstituteDataset) -> str:
    """Why a run that is there, or what a missing one would start from, is not of the dataset; empty: it is."""
    folder = place.folder(run)
    if not place.is_done(run) and not (folder / EVALUATION).is_dir():
        before = "" if run.start is None else other_data(place, run.start, data)
        return before and f"it would start from another run: {before}"
    if _is_of(place, run, data):
        return ""
    return (
        f"{folder} was trained on {dataset_named(folder) or 'another dataset'}, and --data is {data.folder}: remove it "
        "to have it trained again, or name another folder of runs with --runs"
    )


def dataset_named(folder: Path) -> str:
    """The dataset that a run's recipe names; empty: there is no recipe.

    >>> dataset_named(Path("no_run"))
    ''
    """
    recipe = folder / RECIPE
    return str(read_settings_file(recipe).get("data", "")) if recipe.exists() else ""


def _is_of(place: Workplace, run: PlannedRun, data: SubstituteDataset) -> bool:
    report = place.report(run)
    if "dataset" in report:
        return bool(report["dataset"] == data.digest)
    named = Path(dataset_named(place.folder(run)) or data.folder)  # where nothing is known, nothing speaks against it
    if (named / TABLE).is_file():
        return sha256_file(named / TABLE) == data.digest
    return named.name == data.folder.name  # it was trained on another machine, or the dataset has moved
