"""Training from a recipe file: reads it once and selects the trainer by ``task``."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sct.errors import InputError, format_value
from sct.storage.reading import read_toml
from sct.training.captioner.config import CaptionerRecipe
from sct.training.captioner.trainer import CaptionerReport, train_captioner
from sct.training.config import Recipe
from sct.training.metric_logger import OnProgress
from sct.training.recipe_files import find_recipe
from sct.training.sorter.config import SorterRecipe
from sct.training.sorter.trainer import SorterReport, train_sorter
from sct.training.vision.config import VisionRecipe
from sct.training.vision.trainer import VisionReport, train_vision

TrainingReport = CaptionerReport | VisionReport | SorterReport


class TrainingTask(NamedTuple):
    """Recipe class and trainer of a task."""

    recipe: type[Recipe]
    train: Callable[..., Any]


TASKS = {
    "captioner": TrainingTask(CaptionerRecipe, train_captioner),
    "vision": TrainingTask(VisionRecipe, train_vision),
    "sorter": TrainingTask(SorterRecipe, train_sorter),
}


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe of any task, also a shipped one (``find_recipe``); without ``task`` it is a captioner's."""
    path = find_recipe(path)
    content = read_toml(path, "a recipe")
    task = content.get("task", "captioner")
    if not isinstance(task, str) or task not in TASKS:
        raise InputError(f"{path}: task is {format_value(task)}: expected {', '.join(TASKS)}")
    return TASKS[task].recipe.from_toml(content, path, overrides)


def train_recipe(recipe: Recipe, *, resume: bool = False, on_progress: OnProgress | None = None) -> TrainingReport:
    """Train what a recipe describes; ``resume`` continues from the checkpoint in its run directory."""
    [train] = [task.train for task in TASKS.values() if isinstance(recipe, task.recipe)]
    if resume and not recipe.RESUMABLE:
        raise InputError("a vision encoder trains in minutes and cannot be resumed: leave out --resume")
    options = {"resume": resume} if recipe.RESUMABLE else {}
    report: TrainingReport = train(recipe, on_progress=on_progress, **options)
    return report
