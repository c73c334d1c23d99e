"""The command line: one module per command, each a thin shell over importable functions."""

import sys
from collections.abc import Sequence
from io import TextIOWrapper

from sct.cli.main import run

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``sct`` and exit: 0 on success, 2 on bad usage or bad input."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr: names in scripts that its encoding lacks
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))
