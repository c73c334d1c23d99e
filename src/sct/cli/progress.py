"""Progress bars, on a terminal only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sct.cli.verbosity import is_quiet


@contextmanager
def progress_bar(label: str, *, hidden: bool = False) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function that takes the number done and the total.

    Output printed meanwhile appears above the bar if both are on the terminal.
    """
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns,
        console=Console(file=sys.stderr),
        redirect_stdout=sys.stdout.isatty(),
        disable=hidden or is_quiet() or not sys.stderr.isatty(),
    ) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
