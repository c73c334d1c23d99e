import numpy as np
import pytest

from sct.language.noun_table import NounTable
from sct.metrics.control_fidelity import FidelityCaption, FidelityChunk, control_fidelity
from sct.metrics.noun_relations import load_relations

NOUNS = ("man", "person", "dog", "ball", "front", "lake", "water")
TABLE = NounTable.from_vectors(NOUNS, np.eye(len(NOUNS)), "toy")


def score(text, chunks, human, image_nouns=("man", "dog")):
    caption = FidelityCaption(
        tuple(text.split()),
        tuple(FidelityChunk(tuple(words.split()), number) for words, number in chunks),
        human,
        frozenset(image_nouns),
    )
    return control_fidelity([caption], TABLE, load_relations())


@pytest.mark.parametrize(
    ("chunks", "named", "described"),
    [
        pytest.param([], 0.0, 0.0, id="no chunk"),
        pytest.param([("a man", 0), ("a dog", 1)], 1.0, 1.0, id="both named"),
        pytest.param([("a dog", 0), ("a man", 1)], 0.0, 1.0, id="swapped"),
        pytest.param([("a person", 0)], 1.0, 0.5, id="a hypernym, one set left out"),
        pytest.param([("a", 0), ("a dog", 1)], 0.5, 0.5, id="an article describes nothing"),
    ],
)
def test_names_and_coverage(chunks, named, described):
    scores = score("a man and a dog", chunks, (("man",), ("dog",)))
    assert (scores.named, scores.described) == (named, described)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("he runs", 0.0, id="no object"),
        pytest.param("a man in front of a dog", 0.0, id="places are no objects"),
        pytest.param("a person with a ball", 0.5, id="nobody mentions a ball"),
    ],
)
def test_extra_objects(text, expected):
    assert score(text, [], (("man",), ("dog",))).extra == expected


def test_order_is_that_asked_for():
    right, wrong = (score(text, [], (("man",), ("dog",))).order for text in ("man dog", "dog man"))
    assert right == 1.0
    assert wrong < right
