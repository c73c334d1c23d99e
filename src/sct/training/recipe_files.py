"""Recipes that come with the package, found by name in any folder: ``sct train tiny``."""

import difflib
import re
from pathlib import Path

from sct.errors import InputError

_FOLDER = "recipes"
_PACKAGE = Path(__file__).parents[1]


def shipped_recipes() -> dict[str, Path]:
    """Shipped recipe files by their names, such as "tiny" or "flickr8k/cider".

    They are in the installed package, or, for a clone of the repository, beside ``src``.
    """
    folders = [folder for root in (_PACKAGE, _PACKAGE.parents[1]) if (folder := root / _FOLDER).is_dir()]
    return {
        file.relative_to(folder).with_suffix("").as_posix(): file
        for folder in folders[:1]
        for file in sorted(folder.rglob("*.toml"))
    }


def find_recipe(path: Path) -> Path:
    """Path of a recipe: the file as given, else the shipped one of this name ("recipes/tiny.toml" is "tiny" too)."""
    if path.is_file():
        return path
    shipped = shipped_recipes()
    name = path.as_posix().removeprefix(f"{_FOLDER}/").removesuffix(".toml")
    if name in shipped:
        return shipped[name]
    if path.exists():
        return path  # a folder or a pipe, which the reader refuses
    nearest = difflib.get_close_matches(name[:100], shipped, n=3, cutoff=0.4)
    suggestion = f", such as {' or '.join(nearest)}" if nearest else ""
    raise InputError(
        f"{path} does not exist: name a recipe file, or a recipe that comes with sct{suggestion} "
        "(sct recipes lists them)"
    )


def find_recipe_folder(folder: Path) -> Path:
    """Folder of the project's recipes: as given, else the shipped one for "recipes"."""
    if folder != Path(_FOLDER) or folder.exists():
        return folder
    return next((file.parents[name.count("/")] for name, file in shipped_recipes().items()), folder)


def summarize_recipe(text: str) -> str:
    r"""First sentence of the comment that a recipe begins with.

    >>> summarize_recipe("# Smoke test: overfits\n# eight images. Quick.\n#   sct train tiny\nmax_epochs = 60")
    'Smoke test: overfits eight images.'
    >>> summarize_recipe("# The sorting network as printed (App. A). Slow.")
    'The sorting network as printed (App. A).'
    """
    lines = []
    for line in text.splitlines():
        if not line.startswith("# ") or line.startswith("#  "):
            break
        lines.append(line.removeprefix("# "))
    return re.split(r"(?<=\.)(?<!App\.)(?<!Sec\.)\s+(?=[A-Z])", " ".join(lines))[0]
