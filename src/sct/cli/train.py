"""``sct train``: train a captioner stage, a vision encoder or a sorter from a recipe."""

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

from sct.cli.completion import complete_recipe
from sct.cli.verbosity import is_quiet, log_level

if TYPE_CHECKING:
    from sct.training.metric_logger import OnProgress, TrainingProgress


def train_command(
    recipe: Annotated[
        Path,
        typer.Argument(
            metavar="RECIPE",
            help="Recipe file, or the name of a shipped one (sct recipes).",
            autocompletion=complete_recipe,
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE", help="Recipe overrides, such as out=DIR from=BUNDLE objective.num_samples=5"
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the checkpoint in the run directory.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Train a captioner stage, a vision encoder (task = "vision") or a sorter (task = "sorter").

    The run directory is out, by default runs/ and the recipe's path. SIGTERM and Ctrl-C save a checkpoint and exit with
    code 0; a second signal exits at once.
    """
    from sct.training.run import load_recipe, train_recipe  # noqa: PLC0415

    loaded = load_recipe(recipe, overrides or [])
    with _progress_line() as on_progress:
        report = train_recipe(loaded, resume=resume, on_progress=on_progress)
    if _is_rank_zero():
        print(json.dumps(asdict(report)) if as_json else report.summary())


@contextmanager
def _progress_line() -> Iterator["OnProgress | None"]:
    """A progress line on a terminal; in a pipe, log messages instead."""
    if not _is_rank_zero():
        with _log_to_stderr(log_level(logging.WARNING)):
            yield lambda _: None
    elif is_quiet() or not sys.stderr.isatty():
        with _log_to_stderr(log_level(logging.INFO)):
            yield None
    else:
        # The log handler is installed inside, where Live prints it above the progress line.
        with (
            Live(console=Console(file=sys.stderr), auto_refresh=False) as live,
            _log_to_stderr(log_level(logging.INFO)),
        ):

            def on_progress(progress: "TrainingProgress") -> None:
                live.update(Text(progress.line(), no_wrap=True, overflow="ellipsis"), refresh=True)

            yield on_progress


@contextmanager
def _log_to_stderr(level: int) -> Iterator[None]:
    logger = logging.getLogger("sct")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    before, handlers = logger.level, list(logger.handlers)
    logger.handlers = [handler]  # with --verbose, every message once
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.handlers = handlers
        logger.setLevel(before)


def _is_rank_zero() -> bool:
    """Whether this process reports: torchrun, Fabric and Slurm number ranks by environment variables."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "NODE_RANK", "LOCAL_RANK", "SLURM_PROCID"))
