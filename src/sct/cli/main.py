"""What all verbs share: how they are found, and how they fail."""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

import sct
from sct.cli import evaluate, import_reference, prepare, score, show, stats, train
from sct.errors import InputError

app = typer.Typer(name="sct", add_completion=False, rich_markup_mode=None)
app.command("prepare")(prepare.prepare_command)
app.command("stats")(stats.stats_command)
app.command("show")(show.show_command)
app.command("train")(train.train_command)
app.command("evaluate")(evaluate.evaluate_command)
app.command("score")(score.score_command)
app.command("import-reference")(import_reference.import_reference_command)

# The base of typer's errors about a command line; typer itself exports only classes derived from it.
_CommandLineError: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)


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
        command = typer.main.get_command(app)
        with command.make_context("sct", [*rest] or ["--help"]) as context:
            command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as leave:
        return leave.exit_code if rest else 2
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", 130, debug=debug)
    except (BrokenPipeError, SystemExit):
        # The reader of our output left ("sct stats X | head"); rich turns that into SystemExit. It is no fault, but
        # nothing more may be written either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (_CommandLineError, InputError, OSError) as error:
        describe = getattr(error, "format_message", error.__str__)
        return _fail(describe(), 2, debug=debug)
    except Exception as error:
        return _fail(f"{type(error).__name__}: {error} (a fault of sct; --debug shows where)", 1, debug=debug)
    return 0


def _fail(message: str, code: int, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"sct: {' '.join(message.split())}", file=sys.stderr)
    return code
