import numpy as np
import pytest

from sct.language.noun_table import NounTable
from sct.language.pos_tags import PosTagger, majority_nouns
from sct.language.tokenizer import tokenize
from sct.language.word_vectors import WordVectors


@pytest.fixture(scope="module")
def tagger():
    return PosTagger()


@pytest.mark.parametrize(
    ("caption", "nouns"),
    [
        pytest.param("", [], id="no words"),
        pytest.param("It is running very fast.", [], id="no noun"),
        pytest.param("A man rides a brown horse on the beach.", ["man", "horse", "beach"], id="in order"),
        pytest.param("An orange cat eats an orange.", ["cat", "orange"], id="by its place"),
        pytest.param(
            "A bus (with people) on a street.", ["bus", "people", "street"], id="brackets are words but no nouns"
        ),
    ],
)
def test_nouns_of_a_caption(caption, nouns, tagger):
    assert list(tagger.nouns([tokenize(caption)])) == [nouns]


def test_a_word_is_a_noun_if_it_mostly_is(tagger):
    captions = [tokenize(text) for text in ("An orange cat.", "An orange dog.", "A man eats an orange.", "A cat runs.")]
    flags = list(tagger.is_noun(captions))
    assert [flags[0][1], flags[1][1], flags[2][4]] == [False, False, True]  # "orange": 1 of 3
    assert majority_nouns(captions, tagger) == {"cat", "dog", "man"}
    assert majority_nouns(reversed(captions), tagger) == {"cat", "dog", "man"}


def test_table_of_a_corpus(tagger):
    vectors = WordVectors("two words", {"cat": 0, "the": 1}, np.array([[3.0, 4.0], [1.0, 0.0]]))
    table = NounTable.from_nouns(majority_nouns([["the", "cat", "and", "the", "dog"]], tagger), vectors)
    assert table.nouns == ("cat", "dog")
    np.testing.assert_allclose(table.units, [[0.6, 0.8], [0.0, 0.0]], atol=1e-7)


def test_no_captions_have_no_nouns(tagger):
    assert majority_nouns([], tagger) == frozenset()
