import numpy as np
import pytest

from sct.language.inflection import base_forms
from sct.language.noun_table import NounTable
from sct.metrics.grounding import PredictedChunk, chunk_agreement, find_class

NAMES = {
    "dog": "dog", "puppy": "dog", "hot dog": "hot dog", "person": "person", "man": "person", "knife": "knife",
    "fire hydrant": "fire hydrant", "hydrant": "fire hydrant", "bus": "bus",
}  # fmt: skip
NOUNS = {
    "dog": [1.0, 0.0], "dogs": [1.0, 0.0], "cat": [0.6, 0.8], "stand": [0.0, 1.0], "man": [0.0, 1.0],
    "people": [0.0, 1.0], "group": [1.0, 1.0], "hat": [-1.0, 0.0], "fire": [1.0, 1.0], "hydrant": [1.0, 1.0],
}  # fmt: skip
TABLE = NounTable.from_vectors(list(NOUNS), np.array(list(NOUNS.values())), "toy")


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


@pytest.mark.parametrize(
    ("chunk", "name"),
    [
        pytest.param("", None, id="no words"),
        pytest.param("a cat", None, id="not a class"),
        pytest.param("a dog", "dog", id="class"),
        pytest.param("two dogs", "dog", id="plural"),
        pytest.param("a young man", "person", id="synonym"),
        pytest.param("a group of people", "person", id="measure noun"),
        pytest.param("groups of people", "person", id="plural measure noun"),
        pytest.param("a hot dog", "hot dog", id="longest name"),
        pytest.param("a dog stand", None, id="head, not modifier"),
        pytest.param("a man with a dog", "person", id="head, not complement"),
        pytest.param("a fire hydrant", "fire hydrant", id="two-word name"),
        pytest.param("the knives", "knife", id="noun missing from the table"),
        pytest.param("of the", None, id="function words only"),
    ],
)
def test_find_class(chunk, name):
    assert find_class(words(chunk), NAMES, TABLE) == name


@pytest.mark.parametrize(
    ("noun", "form"),
    [
        pytest.param("dog", "dog", id="singular"),
        pytest.param("dogs", "dog", id="s"),
        pytest.param("benches", "bench", id="es"),
        pytest.param("puppies", "puppy", id="ies"),
        pytest.param("knives", "knife", id="ves to fe"),
        pytest.param("loaves", "loaf", id="ves to f"),
        pytest.param("firemen", "fireman", id="men"),
        pytest.param("children", "child", id="irregular"),
    ],
)
def test_base_forms(noun, form):
    assert form in base_forms(noun)


def test_chunks_without_annotations():
    for captions in ([], [[]], [[PredictedChunk(words("a dog"))]]):
        found = chunk_agreement(captions, NAMES, TABLE)
        assert (found.class_match, found.human_noun_match, found.human_noun_similarity) == (None, None, None)


def test_corpus_averages_chunks():
    captions = [
        [
            PredictedChunk(words("a dog"), "dog"),
            PredictedChunk(words("a man"), "dog"),
            PredictedChunk(words("the sky")),
        ],
        [],
        [PredictedChunk(words("two dogs"), "dog")],
    ]
    score = chunk_agreement(captions, NAMES, TABLE).class_match
    assert score is not None
    np.testing.assert_array_equal(score.per_caption, [0.5, np.nan, 1.0])
    assert score.corpus == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("chunk", "phrases", "match", "similarity"),
    [
        pytest.param("a dog", ["the brown dog"], 1.0, 1.0, id="same head"),
        pytest.param("two dogs", ["a dog"], 1.0, 1.0, id="plural"),
        pytest.param("a cat", ["a dog"], 0.0, 0.8, id="similar: (0.6 + 1) / 2"),
        pytest.param("a dog", ["a hat"], 0.0, 0.0, id="opposites: (-1 + 1) / 2"),
        pytest.param("a cat", ["a man", "a dog", "a hat"], 0.0, 0.9, id="most similar phrase: (0.8 + 1) / 2"),
        pytest.param("a hat", ["a dog", "his hat"], 1.0, 1.0, id="one phrase matches"),
        pytest.param("a gnu", ["a dog"], 0.0, 0.5, id="noun missing from the table"),
        pytest.param("a gnu", ["some gnus"], 1.0, 1.0, id="noun missing from the table, same head"),
        pytest.param("a gnu", [""], 0.0, 0.0, id="empty phrase"),
    ],
)
def test_agreement_with_human_phrases(chunk, phrases, match, similarity):
    found = chunk_agreement([[PredictedChunk(words(chunk), None, tuple(map(words, phrases)))]], NAMES, TABLE)
    assert found.class_match is None
    assert found.human_noun_match is not None
    assert found.human_noun_similarity is not None
    assert found.human_noun_match.corpus == match
    assert found.human_noun_similarity.corpus == pytest.approx(similarity)
