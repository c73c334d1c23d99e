"""Recipes are found in the working folder, else in the package."""

import json
import re
from pathlib import Path

import pytest

from sct.cli.main import run
from sct.errors import InputError
from sct.training.config import default_out, flatten_config
from sct.training.recipe_files import find_recipe, find_recipe_folder, shipped_recipes
from sct.training.run import load_recipe

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_file_of_the_user_comes_first(tmp_path):
    path = Path("recipes/tiny.toml")
    path.parent.mkdir()
    path.write_text("")
    assert find_recipe(path) == path
    assert find_recipe_folder(Path("recipes")) == Path("recipes")


@pytest.mark.parametrize("name", ["tiny", "tiny.toml", "recipes/tiny", "recipes/tiny.toml"])
def test_a_shipped_recipe_is_found_by_name(name):
    assert find_recipe(Path(name)) == ROOT / "recipes" / "tiny.toml"


def test_a_folder_of_the_same_name_does_not_hide_a_recipe():
    Path("tiny").mkdir()
    assert find_recipe(Path("tiny")) == ROOT / "recipes" / "tiny.toml"


def test_a_shipped_recipe_is_found_anywhere():
    assert load_recipe(Path("flickr8k/cross_entropy")).out == "runs/flickr8k/cross_entropy"
    assert load_recipe(Path("recipes/tiny.toml")).out == "runs/tiny"
    assert find_recipe_folder(Path("recipes")) == ROOT / "recipes"


def test_other_names_are_refused_with_those_that_exist():
    with pytest.raises(InputError, match=r"flickr8k/crossentropy does not exist: .*such as flickr8k/cross_entropy or"):
        find_recipe(Path("flickr8k/crossentropy"))
    with pytest.raises(InputError, match=r"comes with sct \(sct recipes lists them\)"):
        find_recipe(Path("zzz.toml"))
    assert find_recipe_folder(Path("mine")) == Path("mine")


def test_an_installation_without_recipes(monkeypatch, tmp_path):
    monkeypatch.setattr("sct.training.recipe_files._PACKAGE", tmp_path / "site-packages" / "sct")
    assert shipped_recipes() == {}
    assert find_recipe_folder(Path("recipes")) == Path("recipes")


def test_every_recipe_is_listed(capsys):
    assert set(shipped_recipes().values()) == set((ROOT / "recipes").rglob("*.toml"))
    assert run(["recipes"]) == 0
    out = capsys.readouterr().out
    for name in shipped_recipes():
        [line] = [line for line in out.splitlines() if line.split()[:1] == [name]]
        assert line.endswith(".")
    assert f"Files: {ROOT / 'recipes'}" in out
    assert run(["recipes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tiny"] == str(ROOT / "recipes" / "tiny.toml")


@pytest.mark.parametrize("name", shipped_recipes())
def test_headers_say_what_makes_the_files_that_a_recipe_needs(name):
    """In the recipe's own header, or in those of the recipes that it names."""
    pending, seen = [name], set()
    while pending:
        seen.add(current := pending.pop())
        text = shipped_recipes()[current].read_text()
        named = re.findall(r"recipes/([\w/]+)\.toml|runs/([\w/]+)/(?:best|last|vision)", text)
        pending += [found for pair in named for found in pair if found in shipped_recipes() and found not in seen]
    headers = [line for each in seen for line in shipped_recipes()[each].read_text().splitlines() if line[:1] == "#"]
    made = {default_out(Path(f"recipes/{each}.toml")) for each in seen}
    needs_start = 'stage = "cider' in shipped_recipes()[name].read_text()
    recipe = load_recipe(Path(name), ["from=runs/x/best"] if needs_start else [])
    settings = ("data", "backbone", "examples.vision", "examples.features", "model.init_language_from")
    for path in filter(None, map(flatten_config(recipe).get, settings)):
        is_made = any(str(path).startswith(f"{out}/") for out in made)
        assert is_made or any(path in line for line in headers), path
