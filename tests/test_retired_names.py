"""Names that the redesign retired stay retired: ``docs/glossary.md`` has the field's term for each."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RETIRED = {
    "picture": "image",
    "pictures": "images",
    "sight": "vision",
    "glimpse": "EncodedImage",
    "glance": "EncodedImage",
    "eye": "vision encoder",
    "eyes": "vision encoder",
    "speaker": "Decoder",
    "spoken": "token_mask",
    "manners": "latents",
    "rival": "baseline",
    "rivals": "baselines",
    "judge": "score",
    "judged": "scored",
    "judgement": "EvaluationResult",
    "workshop": "TrainingComponents",
    "lessons": "VisionData, SorterData",
    "undrawn": "skip_init",
    "wanted": "expected",
    "told": "reported, output",
}
"""Words of identifiers and recipe keys, with the term to use."""
PYTHON = [
    path for folder in ("src", "tests", "benchmarks", "examples") for path in sorted((ROOT / folder).rglob("*.py"))
]
RECIPES = sorted((ROOT / "recipes").rglob("*.toml"))


def retired_words(name: str) -> set[str]:
    return RETIRED.keys() & {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def defined_names(code: str) -> Iterator[str]:
    """Names that a module gives: functions, classes, arguments, variables, attributes of ``self`` and keywords."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def keys(table: dict[str, object]) -> Iterator[str]:
    for key, value in table.items():
        yield key
        if isinstance(value, dict):
            yield from keys(value)


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: str(path.relative_to(ROOT)))
def test_identifiers(path):
    found = {name: retired_words(name) for name in defined_names(path.read_text(encoding="utf-8"))}
    assert {name: {word: RETIRED[word] for word in words} for name, words in found.items() if words} == {}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: str(path.relative_to(ROOT)))
def test_recipe_keys(path):
    assert [key for key in keys(tomllib.loads(path.read_text(encoding="utf-8"))) if retired_words(key)] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("", set(), id="no name"),
        pytest.param("image_folder", set(), id="the field's word"),
        pytest.param("open_picture", {"picture"}, id="snake case"),
        pytest.param("SightNetwork", {"sight"}, id="camel case"),
        pytest.param("MOST_PICTURES", {"pictures"}, id="constant"),
        pytest.param("insight", set(), id="part of a word"),
    ],
)
def test_retired_words(name, expected):
    assert retired_words(name) == expected
