import pytest

from sct.language.inflection import inflections, is_plural, plural_forms

WORDS = {"dog", "dogs", "woman", "women", "child", "children", "puppy", "puppies", "grass", "knife", "knives", "bus"}


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        pytest.param("cat", (), id="none in the vocabulary"),
        pytest.param("dog", ("dog", "dogs"), id="plural"),
        pytest.param("dogs", ("dogs", "dog"), id="singular"),
        pytest.param("women", ("women", "woman"), id="irregular"),
        pytest.param("child", ("child", "children"), id="irregular plural"),
        pytest.param("puppies", ("puppies", "puppy"), id="ies"),
        pytest.param("knife", ("knife", "knives"), id="ves"),
        pytest.param("grass", ("grass",), id="no plural of a word in ss"),
        pytest.param("buses", ("bus",), id="given form unknown"),
    ],
)
def test_inflections(noun, expected):
    assert inflections(noun, WORDS) == expected


@pytest.mark.parametrize(("noun", "expected"), [("bus", False), ("people", True), ("glass", False), ("pants", True)])
def test_is_plural(noun, expected):
    assert is_plural(noun) is expected


def test_plurals_in_es():
    assert "boxes" in plural_forms("box")
