"""What all verbs share: how they are found, and how they fail."""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

import sct
from sct.cli import prepare, show, stats
from sct.errors import InputError

app = typer.Typer(name="sct", add_completion=False, rich_markup_mode=None)
app.command("prepare")(prepare.prepare_command)
app.command("stats")(stats.stats_command)
app.command("show")(show.show_command)

# The base of all usage errors; typer exports only one that is derived from it.
_UsageError: type[Exception] = typer.BadParameter.__mro__[2]


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"sct {sct.__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from; may stand anywhere.")] = False,
) -> None:
    """Show, Control and Tell: captions grounded on the regions you point at."""


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; errors are one line on stderr."""
    debug = "--debug" in arguments
    rest = [argument for argument in arguments if argument != "--debug"]
    try:
        code = app(args=rest or ["--help"], prog_name="sct", standalone_mode=False)
    except typer.Exit as leave:
        return leave.exit_code
    except (KeyboardInterrupt, typer.Abort):
        print("sct: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output left ("sct stats X | head"): no fault, but nothing more may be written either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (InputError, OSError, _UsageError) as error:
        if debug:
            traceback.print_exc()
        print(f"sct: {_one_line(error)}", file=sys.stderr)
        return 2
    if not rest:
        return 2
    return code if isinstance(code, int) else 0


def _one_line(error: BaseException) -> str:
    describe = getattr(error, "format_message", None)
    return " ".join(str(describe() if describe else error).split())
