"""Entry point of ``sct``: lazy loading of commands, error messages and exit codes."""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated

import typer

from sct._version import __version__
from sct.cli.common_options import with_common_options
from sct.cli.completion import completed_words
from sct.cli.printing import print_message
from sct.cli.verbosity import QuietOption, VerboseOption, configure_verbosity
from sct.errors import InputError
from sct.storage.atomic import DISK_FULL

VERBS = (
    "caption",
    "detect",
    "prepare",
    "merge",
    "stats",
    "show",
    "train",
    "recipes",
    "evaluate",
    "score",
    "bulk",
    "reproduce",
    "serve",
    "import-reference",
    "export-vision",
    "export-onnx",
)
"""Each is a module of this package with a function ``<verb>_command``."""

_COMMON_OPTIONS = ("-v", "-vv", "--verbose", "-q", "--quiet")
# Base class of typer's usage errors, which typer itself does not export.
_CommandLineError: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)


def _print_version(value: bool) -> bool:
    if value:
        typer.echo(f"sct {__version__}")
        raise typer.Exit
    return value


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print tracebacks; may be given anywhere.")] = False,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Show, Control and Tell: captions grounded on the regions you point at."""


def _app(arguments: Sequence[str]) -> typer.Typer:
    """Build the command line; if the arguments name a verb, only that module is imported."""
    app = typer.Typer(
        name="sct",
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_options)
    named = next((argument for argument in arguments if not argument.startswith("-")), None)
    for verb in [named] if named in VERBS else VERBS:
        name = verb.replace("-", "_")
        command = getattr(import_module(f"sct.cli.{name}"), f"{name}_command")
        app.command(verb, short_help=_summary(command))(with_common_options(command))
    return app


def _summary(command: Callable[..., None]) -> str:
    """First paragraph of a command's docstring, for the list of commands; typer's own summaries are cut off."""
    return " ".join((command.__doc__ or "").partition("\n\n")[0].split())


def _common_options_last(arguments: list[str]) -> list[str]:
    """Move options of every command behind its name, where they are parsed.

    >>> _common_options_last(["-q", "stats", "data"])
    ['stats', '-q', 'data']
    """
    verb = next((number for number, argument in enumerate(arguments) if not argument.startswith("-")), 0)
    moved = [argument for argument in arguments[:verb] if argument in _COMMON_OPTIONS]
    kept = [argument for argument in arguments[:verb] if argument not in _COMMON_OPTIONS]
    return [*kept, *arguments[verb : verb + 1], *moved, *arguments[verb + 1 :]]


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; an error is one line on stderr."""
    debug = "--debug" in arguments
    rest = _common_options_last([argument for argument in arguments if argument != "--debug"])
    configure_verbosity()
    try:
        if (words := completed_words()) is not None:
            os.environ["COLUMNS"] = "1000"  # else typer breaks the lines of summaries
            typer.main.get_command(_app(words)).main([], prog_name="sct")  # answers and exits
        command = typer.main.get_command(_app(rest))
        with command.make_context("sct", [*rest] or ["--help"]) as context:
            command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as leave:
        return leave.exit_code if rest else 2
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", 130, debug=debug)
    except (BrokenPipeError, SystemExit) as leave:
        if isinstance(leave, SystemExit) and not leave.code:  # of typer's completion
            return 0
        # The reader closed the pipe ("sct stats X | head"); rich turns that into SystemExit. Not an error, but nothing
        # more may be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _report(error, debug=debug)
    return 0


def _report(error: Exception, *, debug: bool) -> int:
    """Print an error and return the exit code: 2 for input and environment, 1 for a bug."""
    code = 2
    if isinstance(error, OSError) and error.errno in DISK_FULL and error.filename is None:
        message = f"the output cannot be written ({error.strerror or error}): expected room where stdout or --out goes"
    elif isinstance(error, _CommandLineError | InputError | OSError):
        message = getattr(error, "format_message", error.__str__)()
    elif isinstance(error, ImportError) and error.name is not None and error.name.split(".")[0] != "sct":
        where = f" from {error.path}" if error.path else ""
        message = (
            f"module {error.name} cannot be imported{where} ({error}): the Python in {sys.prefix} is incomplete, or "
            "not all of it may be read: install it and sct again"
        )
    else:
        message, code = f"{type(error).__name__}: {error} (a bug in sct; --debug prints the traceback)", 1
    return _fail(message, code, debug=debug)


def _fail(message: str, code: int, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print_message(message)
    return code
