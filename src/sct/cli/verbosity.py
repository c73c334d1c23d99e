"""How much a command says on stderr: messages and logs, never its results or errors."""

import logging
import sys
from typing import Annotated

import typer

VerboseOption = Annotated[
    int, typer.Option("--verbose", "-v", count=True, show_default=False, help="Print more messages; -vv: still more.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only.")]

_LOGGER = logging.getLogger("sct")
_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


class _StderrHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes messages as ``sct.cli.printing.print_message`` does, to what ``sys.stderr`` is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        from sct.cli.printing import print_message  # noqa: PLC0415  it asks this module whether to print

        print_message(record.getMessage())


_HANDLER = _StderrHandler(sys.stderr)


def configure_verbosity(verbose: int = 0, *, quiet: bool = False) -> None:
    """Set the level of the package's logs: warnings, with ``verbose`` more, with ``quiet`` errors only."""
    if quiet and verbose:
        raise typer.BadParameter("got --quiet and --verbose: give one of them")
    _LOGGER.setLevel(logging.ERROR if quiet else _LEVELS[min(verbose, len(_LEVELS) - 1)])
    if verbose and _HANDLER not in _LOGGER.handlers:
        _LOGGER.addHandler(_HANDLER)
    elif not verbose:
        _LOGGER.removeHandler(_HANDLER)  # without a handler, Python prints warnings


def is_quiet() -> bool:
    """Whether messages and progress are left out."""
    return _LOGGER.level >= logging.ERROR


def log_level(default: int) -> int:
    """Level of a command that logs at ``default``, unless the user chose another."""
    return _LOGGER.level if _LOGGER.level not in (logging.NOTSET, logging.WARNING) else default
