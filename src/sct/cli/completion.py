"""Shell completion: what ``sct`` answers to the scripts of ``--show-completion``."""

import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

COMPLETE_VARIABLE = "_SCT_COMPLETE"
"""Environment variable by which the scripts ask for completions."""
_WORDS_VARIABLES = ("_TYPER_COMPLETE_ARGS", "COMP_WORDS")


def completed_words(environment: Mapping[str, str] = os.environ) -> list[str] | None:
    """Words of the command line that is being completed, after ``sct``; None if none is.

    >>> completed_words({"_SCT_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "sct train ti"})
    ['train', 'ti']
    """
    if COMPLETE_VARIABLE not in environment:
        return None
    text = next((environment[name] for name in _WORDS_VARIABLES if name in environment), "")
    try:
        return shlex.split(text)[1:]
    except ValueError:  # a quote that is still open
        return text.split()[1:]


def complete_recipe(incomplete: str) -> list[str]:
    """Names of shipped recipes, then recipe files and folders below the working folder."""
    from sct.training.recipe_files import shipped_recipes  # noqa: PLC0415

    names = [name for name in shipped_recipes() if name.startswith(incomplete)]
    return [*names, *_paths(incomplete, lambda path: path.is_dir() or path.suffix == ".toml")]


def complete_model(incomplete: str) -> list[str]:
    """``default``, and folders."""
    names = ["default"] if "default".startswith(incomplete) else []
    return [*names, *_paths(incomplete, Path.is_dir)]


def _paths(incomplete: str, is_candidate: Callable[[Path], bool]) -> list[str]:
    """Paths that begin as ``incomplete``, folders with a slash at the end; hidden ones are left out."""
    parent, _, start = incomplete.rpartition("/")
    folder = Path(f"{parent}/") if "/" in incomplete else Path()
    try:
        found = sorted(
            path
            for path in folder.iterdir()
            if path.name.startswith(start) and (start or not path.name.startswith(".")) and is_candidate(path)
        )
    except OSError:
        return []
    return [f"{path}/" if path.is_dir() else str(path) for path in found]
