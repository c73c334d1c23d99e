"""Recipes that come with the package: ``sct train recipes/tiny.toml`` works in any folder."""

from pathlib import Path

from sct.errors import InputError

_FOLDER = "recipes"
_PACKAGE = Path(__file__).parents[1]


def shipped_recipes() -> dict[Path, Path]:
    """Shipped recipe files by their names, such as recipes/tiny.toml.

    They are in the installed package, or, for a clone of the repository, beside ``src``.
    """
    roots = [root for root in (_PACKAGE, _PACKAGE.parents[1]) if (root / _FOLDER).is_dir()]
    return {file.relative_to(root): file for root in roots[:1] for file in sorted((root / _FOLDER).rglob("*.toml"))}


def find_recipe(path: Path) -> Path:
    """Path of a recipe: the file as given, else the shipped one of this name."""
    if path.exists():
        return path
    shipped = shipped_recipes()
    if path not in shipped:
        raise InputError(
            f"{path} does not exist: name a recipe file, or one that comes with sct: {', '.join(map(str, shipped))}"
        )
    return shipped[path]


def find_recipe_folder(folder: Path) -> Path:
    """Folder of the project's recipes: as given, else the shipped one for "recipes"."""
    if folder != Path(_FOLDER) or folder.exists():
        return folder
    return next((file.parents[len(name.parts) - 2] for name, file in shipped_recipes().items()), folder)
