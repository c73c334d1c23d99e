import struct

import numpy as np
import pytest

from sct.errors import InputError
from sct.language.word_vectors import DEFAULT_VECTORS, load_vectors

WORDS = {"dog": [1.0, 0.0], "hund": [2.0, 0.0], "cat": [0.6, 0.8], "nothing": [0.0, 0.0], "hôtel": [0.0, 3.0]}
GLOVE = "".join(f"{word} {a} {b}\n" for word, (a, b) in WORDS.items()).encode()
WORD2VEC = f"{len(WORDS)} 2\n".encode() + GLOVE
BINARY = f"{len(WORDS)} 2\n".encode() + b"".join(
    word.encode() + b" " + struct.pack("<2f", *values) + b"\n" for word, values in WORDS.items()
)


@pytest.fixture(autouse=True)
def _temporary_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("glove.2d.txt", GLOVE, id="GloVe"),
        pytest.param("vectors.vec", WORD2VEC, id="word2vec text"),
        pytest.param("vectors.bin", BINARY, id="word2vec binary"),
    ],
)
def test_all_formats_give_equal_vectors_parsed_or_cached(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    for attempt in ("parsed", "from the cache"):
        vectors = load_vectors(path)
        assert list(vectors.rows) == list(WORDS), attempt
        np.testing.assert_array_equal(vectors.matrix, np.array(list(WORDS.values()), np.float32))
        assert vectors.name == name
    assert isinstance(vectors.matrix, np.memmap)


def test_similarity_is_the_cosine(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_bytes(GLOVE)
    vectors = load_vectors(path)
    assert vectors.similarity("dog", "hund") == pytest.approx(1.0)
    assert vectors.similarity("dog", "cat") == pytest.approx(0.6)  # 0.6 / (1 * 1)
    assert vectors.similarity("dog", "okapi") is None
    assert vectors.similarity("dog", "nothing") is None, "a zero vector has no direction"
    assert "dog" in vectors
    assert "okapi" not in vectors


def test_the_unit_vector_of_two_words_is_that_of_their_mean(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_bytes(GLOVE)
    vectors = load_vectors(path)
    np.testing.assert_allclose(
        vectors.unit_vector(["dog", "cat"]), np.array([1.6, 0.8]) / np.hypot(1.6, 0.8), rtol=1e-6
    )
    assert vectors.unit_vector(["dog", "okapi"]) is None, "an unknown word"
    assert vectors.unit_vector([]) is None


def test_a_changed_file_is_parsed_again(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_bytes(GLOVE)
    load_vectors(path)
    path.write_bytes(b"cow 1 0 0\n")
    assert list(load_vectors(path).rows) == ["cow"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "is empty", id="empty file"),
        pytest.param(b"dog 1.0 0.0\ncat 1.0\n", "line 2", id="a missing number"),
        pytest.param(b"dog 1.0 0.0\ncat 1.0 x\n", "line 2", id="not a number"),
        pytest.param(b"dog 1.0 nan\n", "line 1", id="not finite"),
        pytest.param(b"dog\n", "line 1", id="only words"),
        pytest.param(BINARY[:-6], "ends inside vector 5 of 5", id="truncated binary"),
    ],
)
def test_an_invalid_file_is_an_error_with_the_line(tmp_path, content, message):
    path = tmp_path / "glove.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_vectors(path)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.txt does not exist"):
        load_vectors(tmp_path / "nowhere.txt")


def test_packaged_glove():
    vectors = load_vectors()
    assert vectors.name == DEFAULT_VECTORS
    assert vectors.matrix.shape == (400_000, 50)
    assert vectors.similarity("puppy", "dog") > 0.7
    assert vectors.similarity("puppy", "refrigerator") < 0.4
