from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sct.language.noun_table import NounTable
from sct.language.pos_tags import PosTagger, majority_nouns, shared_tagger
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
        pytest.param("An orange cat eats an orange.", ["cat", "orange"], id="in context"),
        pytest.param("A bus (with people) on a street.", ["bus", "people", "street"], id="brackets are not nouns"),
    ],
)
def test_nouns_of_a_caption(caption, nouns, tagger):
    assert list(tagger.nouns([tokenize(caption)])) == [nouns]


def test_majority_nouns_do_not_depend_on_the_order_of_captions(tagger):
    captions = [tokenize(text) for text in ("An orange cat.", "An orange dog.", "A man eats an orange.", "A cat runs.")]
    flags = list(tagger.is_noun(captions))
    assert [flags[0][1], flags[1][1], flags[2][4]] == [False, False, True]  # "orange": 1 of 3
    assert majority_nouns(captions, tagger) == {"cat", "dog", "man"}
    assert majority_nouns(reversed(captions), tagger) == {"cat", "dog", "man"}


def test_noun_table_of_majority_nouns(tagger):
    vectors = WordVectors("two words", {"cat": 0, "the": 1}, np.array([[3.0, 4.0], [1.0, 0.0]]))
    table = NounTable.from_nouns(majority_nouns([["the", "cat", "and", "the", "dog"]], tagger), vectors)
    assert table.nouns == ("cat", "dog")
    np.testing.assert_allclose(table.units, [[0.6, 0.8], [0.0, 0.0]], atol=1e-7)


def test_majority_nouns_of_no_captions(tagger):
    assert majority_nouns([], tagger) == frozenset()


def test_threads_share_one_tagger():
    caption = ["a", "brown", "dog", "sleeps"]
    with ThreadPoolExecutor(8) as pool:
        taggers = list(pool.map(lambda _: shared_tagger(), range(8)))
        nouns = list(pool.map(lambda tagger: list(tagger.nouns([caption] * 20)), taggers))
    assert len({id(tagger) for tagger in taggers}) == 1
    assert nouns == [[["dog"]] * 20] * 8
