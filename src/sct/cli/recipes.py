"""``sct recipes``: list the recipes that come with the package."""

import json
from typing import Annotated

import typer


def recipes_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object of names and files.")] = False,
) -> None:
    """List the recipes that sct train finds by name; their files begin with the commands that they need."""
    from sct.storage.reading import read_text  # noqa: PLC0415
    from sct.training.recipe_files import shipped_recipes, summarize_recipe  # noqa: PLC0415

    recipes = shipped_recipes()
    if as_json:
        print(json.dumps({name: str(file) for name, file in recipes.items()}))
        return
    width = max(map(len, recipes), default=0)
    for name, file in recipes.items():
        print(f"{name:<{width}}  {summarize_recipe(read_text(file, 'a recipe'))}")
    if recipes:
        name, file = next(iter(recipes.items()))
        print(f"\nFiles: {file.parents[name.count('/')]}")
