"""``sct train``: one stage of training from its recipe."""

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from sct.errors import InputError

if TYPE_CHECKING:
    from sct.training.captioner.trainer import TrainingReport
    from sct.training.metric_logger import Progress, ShowProgress
    from sct.training.sorter.data import SorterReport
    from sct.training.vision.trainer import SightReport


def train_command(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE.toml", help="What to train, on what, and how.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Settings over the recipe's: out=DIR from=BUNDLE objective.samples=5"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in the run's folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,
) -> None:
    """Train one stage, a sorter (task = "sorter") or what sees (task = "sight"); it goes to out, or runs/RECIPE.

    SIGTERM and Ctrl-C save a checkpoint and end with exit code 0; a second one ends at once.
    """
    from sct.training.captioner.config import load_recipe  # noqa: PLC0415
    from sct.training.captioner.trainer import train  # noqa: PLC0415
    from sct.training.config import read_settings_file  # noqa: PLC0415

    task = read_settings_file(recipe).get("task")
    if task == "sorter":
        _train_sorter(recipe, settings or [], resume=resume, as_json=as_json)
        return
    if task == "sight":
        _train_sight(recipe, settings or [], resume=resume, as_json=as_json)
        return
    loaded = load_recipe(recipe, settings or [])
    with _progress_line() as show:
        report = train(loaded, resume=resume, show=show)
    if _is_first_process():
        print(json.dumps(asdict(report)) if as_json else _sentence(report))


def _train_sorter(recipe: Path, settings: list[str], *, resume: bool, as_json: bool) -> None:
    from sct.training.sorter.config import load_sorter_recipe  # noqa: PLC0415
    from sct.training.sorter.trainer import train_sorter  # noqa: PLC0415

    loaded = load_sorter_recipe(recipe, settings)
    with _progress_line() as show:
        report = train_sorter(loaded, resume=resume, show=show)
    print(json.dumps(asdict(report)) if as_json else _sorter_sentence(report))


def _train_sight(recipe: Path, settings: list[str], *, resume: bool, as_json: bool) -> None:
    from sct.training.vision.config import load_vision_recipe  # noqa: PLC0415
    from sct.training.vision.trainer import train_vision  # noqa: PLC0415

    if resume:
        raise InputError("a run that learns to see takes minutes and is not resumed: leave --resume out")
    loaded = load_vision_recipe(recipe, settings)
    with _progress_line() as show:
        report = train_vision(loaded, show=show)
    print(json.dumps(asdict(report)) if as_json else _sight_sentence(report))


def _sight_sentence(report: "SightReport") -> str:
    scores = "" if report.val is None else ", ".join(f"{name} {value:.3f}" for name, value in report.val.items())
    return f"{report.out}: {report.epochs} epochs, {report.seconds:.0f} seconds\n  val: {scores or 'no such split'}"


def _sorter_sentence(report: "SorterReport") -> str:
    lines = [f"{report.out}: {report.kind}, {report.epochs} epochs, {report.seconds:.0f} seconds"]
    rows = {"held out": report.held_out, "val": report.val, "val, people": report.val_by_people}
    rows |= {f"val, {sets} sets": scores for sets, scores in report.val_by_sets.items()}
    lines += [
        f"  {name:<12} accuracy {100 * scores.accuracy:5.1f}  tau {scores.tau:6.3f}  ({scores.controls:,} controls)"
        for name, scores in rows.items()
        if scores is not None
    ]
    return "\n".join([*lines, f"  {report.reason}"])


def _sentence(report: "TrainingReport") -> str:
    minutes, seconds = divmod(round(report.seconds), 60)
    reached = f"{report.out}: {report.step:,} steps, {report.epochs:.2f} epochs, {minutes}:{seconds:02} minutes"
    best = "" if report.best_score is None else f"\n  best validation CIDEr {report.best_score:.1f}: {report.out}/best"
    return f"{reached}{best}\n  {report.reason}"


@contextmanager
def _progress_line() -> Iterator["ShowProgress | None"]:
    """A line on a terminal that is written over and over; in a pipe none, and the library's log instead."""
    if not _is_first_process():
        with _log_on_stderr(logging.WARNING):
            yield lambda _: None
    elif not sys.stderr.isatty():
        with _log_on_stderr(logging.INFO):
            yield None
    else:
        # The log is set up within, where what goes to stderr is put above the line.
        with Live(console=Console(file=sys.stderr), auto_refresh=False) as live, _log_on_stderr(logging.INFO):

            def show(progress: "Progress") -> None:
                live.update(Text(progress.line(), no_wrap=True, overflow="ellipsis"), refresh=True)

            yield show


@contextmanager
def _log_on_stderr(level: int) -> Iterator[None]:
    logger = logging.getLogger("sct")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def _is_first_process() -> bool:
    """Of those that train together: the only one that reports. torchrun, Fabric and Slurm number them."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "NODE_RANK", "LOCAL_RANK", "SLURM_PROCID"))
