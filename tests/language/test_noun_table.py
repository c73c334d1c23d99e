import numpy as np
import pytest
from safetensors.numpy import save_file

from sct.errors import InputError
from sct.language.noun_table import NO_NOUN, NOUN_TABLE_FORMAT, NounTable
from sct.language.word_vectors import WordVectors

TABLE = NounTable.from_vectors(["man", "dog", "odd"], np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), "toy")
VECTORS = WordVectors("three words", {"cat": 0, "a": 1, "dog": 2}, np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]]))


def test_empty_table():
    table = NounTable.from_nouns([], VECTORS)
    assert len(table) == 0
    assert table.indices(["dog"]).tolist() == [NO_NOUN]


def test_nouns_are_sorted_and_vectors_normalized():
    table = NounTable.from_nouns(["dog", "cat", "hydrant", "dog"], VECTORS)
    assert table.nouns == ("cat", "dog", "hydrant")
    np.testing.assert_allclose(table.units, [[0.6, 0.8], [0.0, 1.0], [0.0, 0.0]], atol=1e-7)
    assert "a" not in table
    assert table.vectors_name == "three words"


def test_noun_without_vector_is_similar_to_itself_only():
    row = TABLE.nouns.index("odd")
    similarities = TABLE.similarities(np.array([[row]]), np.arange(len(TABLE))[None])
    assert similarities.tolist() == [[[0.0, 0.0, 1.0]]]
    assert "odd" not in TABLE.with_vectors()
    assert len(TABLE.with_vectors()) == len(TABLE) - 1


def test_similarity_of_equal_vectors_does_not_exceed_1():
    vectors = np.random.default_rng(0).normal(size=(200, 50))
    table = NounTable.from_vectors([f"{row}" for row in range(400)], np.concatenate([vectors, vectors]), "duplicated")
    assert table.similarities(np.arange(200)[:, None], np.arange(200, 400)[:, None]).max() <= 1.0


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(NounTable.from_nouns([], VECTORS), id="no nouns"),
        pytest.param(TABLE, id="nouns"),
        pytest.param(NounTable.from_vectors(["naïve", "犬"], np.eye(2), "toy"), id="non-ASCII nouns"),
    ],
)
def test_save_load_round_trip(table, tmp_path):
    table.save(tmp_path / "nouns.safetensors")
    read = NounTable.load(tmp_path / "nouns.safetensors")
    assert read.nouns == table.nouns
    assert read.vectors_name == table.vectors_name
    np.testing.assert_array_equal(read.units, table.units)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        pytest.param(lambda _: None, "does not exist", id="missing"),
        pytest.param(lambda path: path.mkdir(), "is a folder", id="folder"),
        pytest.param(lambda path: path.write_bytes(b"{"), "is damaged", id="truncated"),
        pytest.param(lambda path: save_file({"units": np.eye(2)}, path), "got format None", id="another file"),
    ],
)
def test_load_rejects_other_files(write, message, tmp_path):
    path = tmp_path / "nouns.safetensors"
    write(path)
    with pytest.raises(InputError, match=message):
        NounTable.load(path)


@pytest.mark.parametrize(
    ("nouns", "vectors", "message"),
    [
        pytest.param(["dog"], [[0.0], [1.0]], "1 nouns and 2 vectors", id="more vectors than nouns"),
        pytest.param(["dog", "dog"], [[0.0], [1.0]], "'dog' twice", id="duplicate noun"),
        pytest.param(["dog", "cat"], [[0.0], [np.nan]], "'cat' has NaN", id="NaN"),
    ],
)
def test_invalid_tables_are_rejected(nouns, vectors, message):
    with pytest.raises(InputError, match=message):
        NounTable.from_vectors(nouns, np.array(vectors), "bad")


def save_raw(path, *, nouns=b"dog\ncat", units=None):
    units = np.eye(2, dtype=np.float32) if units is None else units
    NOUN_TABLE_FORMAT.save_tensors(path, {"nouns": np.frombuffer(nouns, np.uint8), "units": units})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param({"units": np.array([[1, 0], [np.nan, 0]], np.float32)}, "NaN or infinite", id="NaN"),
        pytest.param({"units": np.array([[1, 0], [np.inf, 0]], np.float32)}, "NaN or infinite", id="infinite"),
        pytest.param({"units": np.array([[1, 0], [3e38, 0]], np.float32)}, "not normalized", id="huge"),
        pytest.param({"units": np.zeros((2, 2), np.float32)}, "all its vectors are zero", id="all zero"),
        pytest.param({"units": 5 * np.eye(2, dtype=np.float32)}, "not normalized", id="not normalized"),
        pytest.param({"units": np.eye(2)}, "units float64", id="another type"),
        pytest.param({"units": np.zeros(2, np.float32)}, r"units float32 \(2,\)", id="another shape"),
        pytest.param({"nouns": b"dog\n\xff"}, "can't decode", id="not UTF-8"),
        pytest.param({"nouns": b"dog\ndog"}, "twice", id="a noun twice"),
        pytest.param({"nouns": b"dog"}, "1 nouns and 2 vectors", id="a missing noun"),
    ],
)
def test_a_damaged_file_is_an_error(tmp_path, content, message):
    path = tmp_path / "nouns.safetensors"
    save_raw(path)
    assert NounTable.load(path).nouns == ("dog", "cat")
    save_raw(path, **content)
    with pytest.raises(InputError, match=rf"nouns\.safetensors is damaged .*{message}"):
        NounTable.load(path)
