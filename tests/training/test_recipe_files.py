"""Recipes are found in the working folder, else in the package."""

from pathlib import Path

import pytest

from sct.errors import InputError
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


def test_a_shipped_recipe_is_found_anywhere():
    assert find_recipe(Path("recipes/tiny.toml")) == ROOT / "recipes" / "tiny.toml"
    assert load_recipe(Path("recipes/tiny.toml")).out == "runs/tiny"
    assert find_recipe_folder(Path("recipes")) == ROOT / "recipes"


def test_other_names_are_refused_with_those_that_exist():
    with pytest.raises(InputError, match=r"nothing.toml does not exist: .*, recipes/tiny.toml"):
        find_recipe(Path("recipes/nothing.toml"))
    assert find_recipe_folder(Path("mine")) == Path("mine")


def test_an_installation_without_recipes(monkeypatch, tmp_path):
    monkeypatch.setattr("sct.training.recipe_files._PACKAGE", tmp_path / "site-packages" / "sct")
    assert shipped_recipes() == {}
    assert find_recipe_folder(Path("recipes")) == Path("recipes")


def test_every_recipe_is_listed():
    assert set(shipped_recipes().values()) == set((ROOT / "recipes").rglob("*.toml"))
