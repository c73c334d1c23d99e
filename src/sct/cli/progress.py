"""A progress bar on a terminal, and none in a pipe."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def progress_bar(what: str, *, hidden: bool = False) -> Iterator[Callable[[int, int | None], None]]:
    """Give a function to be told what is done and what there is in all.

    What is printed meanwhile goes above the bar where both are on the terminal, and where it was sent otherwise.
    """
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns,
        console=Console(file=sys.stderr),
        redirect_stdout=sys.stdout.isatty(),
        disable=hidden or not sys.stderr.isatty(),
    ) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
