import numpy as np
import pytest
from safetensors.numpy import save_file

from sct.errors import InputError
from sct.language.noun_table import NO_NOUN, NounTable
from sct.language.word_vectors import WordVectors
from sct.metrics.captions import collapse_repeats, pair_on_spaces
from tests.metrics.noun_tables import BY_HAND

VECTORS = WordVectors("three words", {"cat": 0, "a": 1, "dog": 2}, np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]]))


def test_table_of_no_nouns_knows_none():
    table = NounTable.look_up([], VECTORS)
    assert len(table) == 0
    assert table.rows_of(["dog"]).tolist() == [NO_NOUN]


def test_nouns_come_in_alphabetical_order_with_vectors_of_length_1():
    table = NounTable.look_up(["dog", "cat", "hydrant", "dog"], VECTORS)
    assert table.nouns == ("cat", "dog", "hydrant")
    np.testing.assert_allclose(table.units, [[0.6, 0.8], [0.0, 1.0], [0.0, 0.0]], atol=1e-7)
    assert "a" not in table
    assert table.vectors_name == "three words"


def test_a_noun_without_vector_is_like_itself_only():
    row = BY_HAND.nouns.index("odd")
    similarities = BY_HAND.similarities(np.array([[row]]), np.arange(len(BY_HAND))[None])
    assert similarities.tolist() == [[[0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]]
    assert "odd" not in BY_HAND.known()
    assert len(BY_HAND.known()) == len(BY_HAND) - 1


def test_equal_vectors_are_not_more_alike_than_1():
    vectors = np.random.default_rng(0).normal(size=(200, 50))
    table = NounTable.from_vectors([f"{row}" for row in range(400)], np.concatenate([vectors, vectors]), "doubled")
    assert table.similarities(np.arange(200)[:, None], np.arange(200, 400)[:, None]).max() <= 1.0


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(NounTable.look_up([], VECTORS), id="no nouns"),
        pytest.param(BY_HAND, id="some nouns"),
        pytest.param(NounTable.from_vectors(["naïve", "犬"], np.eye(2), "odd letters"), id="letters beyond ASCII"),
    ],
)
def test_a_saved_table_comes_back(table, tmp_path):
    table.save(tmp_path / "nouns.safetensors")
    read = NounTable.load(tmp_path / "nouns.safetensors")
    assert read.nouns == table.nouns
    assert read.vectors_name == table.vectors_name
    np.testing.assert_array_equal(read.units, table.units)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        pytest.param(lambda _: None, "is not there", id="missing"),
        pytest.param(lambda path: path.mkdir(), "no whole noun table", id="folder"),
        pytest.param(lambda path: path.write_bytes(b"{"), "no whole noun table", id="cut short"),
        pytest.param(lambda path: save_file({"units": np.eye(2)}, path), "has format None", id="another file"),
    ],
)
def test_what_is_no_table_is_refused(write, message, tmp_path):
    path = tmp_path / "nouns.safetensors"
    write(path)
    with pytest.raises(InputError, match=message):
        NounTable.load(path)


@pytest.mark.parametrize(
    ("nouns", "vectors", "message"),
    [
        pytest.param(["dog"], [[0.0], [1.0]], "1 nouns came with 2 vectors", id="one noun too few"),
        pytest.param(["dog", "dog"], [[0.0], [1.0]], "'dog' came twice", id="twice"),
        pytest.param(["dog", "cat"], [[0.0], [np.nan]], "'cat' holds NaN", id="not a number"),
    ],
)
def test_impossible_tables_are_refused(nouns, vectors, message):
    with pytest.raises(InputError, match=message):
        NounTable.from_vectors(nouns, np.array(vectors), "bad")


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        pytest.param("", [], id="no words"),
        pytest.param("a a dog dog a", ["a", "a", "dog", "dog", "a"], id="same words in a row stay"),
        pytest.param("A Dog, runs.", ["A", "Dog,", "runs."], id="letters and marks stay"),
    ],
)
def test_captions_are_cut_on_spaces_as_the_authors_do(candidate, words):
    pairs = pair_on_spaces([candidate], [["a  Dog Dog"]])
    assert pairs.candidate(0) == words
    assert pairs.references_of(0) == [["a", "Dog", "Dog"]]


@pytest.mark.parametrize(
    ("caption", "collapsed"),
    [
        pytest.param("", "", id="no words"),
        pytest.param("a a dog  dog a", "a dog a", id="same words in a row become one"),
        pytest.param("A a Dog, Dog", "A a Dog, Dog", id="letters and marks tell words apart"),
    ],
)
def test_repeats_become_one_as_with_the_authors(caption, collapsed):
    assert collapse_repeats(caption) == collapsed
