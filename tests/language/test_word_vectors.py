import gzip
import os
import struct
import sys

import numpy as np
import pytest

from sct.errors import InputError
from sct.language import word_vectors
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
        pytest.param("glove.2d.txt.gz", gzip.compress(GLOVE), id="GloVe, gzipped"),
        pytest.param("vectors.vec.gz", gzip.compress(WORD2VEC), id="word2vec text, gzipped"),
        pytest.param("vectors.bin", BINARY, id="word2vec binary"),
    ],
)
def test_all_formats_give_equal_vectors_parsed_or_cached(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    for attempt in ("parsed", "from the cache"):
        word_vectors._load_cached.cache_clear()
        vectors = load_vectors(path)
        assert list(vectors.rows) == list(WORDS), attempt
        np.testing.assert_array_equal(vectors.matrix, np.array(list(WORDS.values()), np.float32))
        assert vectors.name == name
    assert isinstance(vectors.matrix, np.memmap)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such a name")
def test_a_path_that_is_not_utf8(tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9.txt")
    path.write_bytes(GLOVE)
    vectors = load_vectors(path)
    assert list(vectors.rows) == list(WORDS)
    assert vectors.name == r"caf\udce9.txt", "it can be written to scores.json"


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
        pytest.param(b"dog 1.0 1e308\n", "line 1", id="too large for float32"),
        pytest.param(b"dog 1.0 1e30\n", "line 1", id="squares too large for float32"),
        pytest.param(b"dog\n", "line 1", id="only words"),
        pytest.param(BINARY[:-6], "ends inside vector 5 of 5", id="truncated binary"),
        pytest.param(BINARY.replace(struct.pack("<f", 3.0), struct.pack("<f", np.nan)), "vector 5 has NaN", id="NaN"),
        pytest.param(b"dog 0 0\ncat 0 0\n", "only zeros", id="all zero"),
        pytest.param(b"99999999999 2\n" + GLOVE, "99,999,999,999 vectors", id="a huge count"),
        pytest.param(b"9" * 12 + b" 300\ndog 1 2 3\n", "999,999,999,999 vectors of 300", id="a count of 12 digits"),
        pytest.param(b"9" * 5000 + b" 3\ndog 1 2 3\n", "999,999,999,999 vectors of 3", id="a count of 5,000 digits"),
        pytest.param(b"6 2\n" + GLOVE, "has 5 vectors, its header says 6", id="fewer rows than the header says"),
        pytest.param(b"4 2\n" + GLOVE, "has 5 vectors, its header says 4", id="more rows than the header says"),
        pytest.param(b"5 1\n" + GLOVE, "line 2: .*expected a word and 1 numbers", id="wider than the header says"),
        pytest.param(b"5 3\n" + GLOVE, "line 2: .*expected a word and 3 numbers", id="narrower than the header says"),
        pytest.param(b"5 0\n" + GLOVE, "5 vectors of 0 numbers", id="no numbers"),
        pytest.param(b"1" + b" 1" * 70_000, "got 70,000 numbers", id="a huge vector"),
        pytest.param(b"d\xff 1 0\n", "line 1", id="not UTF-8"),
    ],
)
def test_an_invalid_file_is_an_error_with_the_line(tmp_path, content, message):
    path = tmp_path / "glove.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_vectors(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(GLOVE, "is not gzip", id="not gzip"),
        pytest.param(gzip.compress(GLOVE * 100)[:-9], "is not gzip or is cut off", id="cut off"),
        pytest.param(gzip.compress(BINARY), "gunzip it", id="binary"),
    ],
)
def test_an_invalid_gzip_file_is_an_error(tmp_path, content, message):
    path = tmp_path / "vectors.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_vectors(path)


def test_the_number_of_vectors_is_bounded(tmp_path, monkeypatch):
    path = tmp_path / "glove.txt"
    path.write_bytes(GLOVE)
    monkeypatch.setattr(word_vectors, "MAX_WORD_VECTORS", 4)
    with pytest.raises(InputError, match="has more than 4 vectors"):
        load_vectors(path)


@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes")
def test_a_pipe_is_an_error(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a pipe or a device"):
        load_vectors(tmp_path / "pipe")


def test_vectors_stay_loaded(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_bytes(GLOVE)
    assert load_vectors(path) is load_vectors(path)
    assert load_vectors() is load_vectors()


def test_packaged_vectors_that_were_changed_are_refused(monkeypatch):
    word_vectors._load_packaged_glove.cache_clear()
    with monkeypatch.context() as changed:
        changed.setitem(word_vectors.PACKAGED_SHA256, "glove_6B_index.parquet", "0" * 64)
        with pytest.raises(InputError, match="differs from the word vectors that sct was tested with"):
            load_vectors()
    assert len(load_vectors().rows) == 400_000


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.txt does not exist"):
        load_vectors(tmp_path / "nowhere.txt")


def test_packaged_glove():
    vectors = load_vectors()
    assert vectors.name == DEFAULT_VECTORS
    assert vectors.matrix.shape == (400_000, 50)
    assert vectors.similarity("puppy", "dog") > 0.7
    assert vectors.similarity("puppy", "refrigerator") < 0.4
