from collections import Counter

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from sct.errors import InputError
from sct.metrics import document_frequencies
from sct.metrics.captions import pair_words
from sct.metrics.document_frequencies import DocumentFrequencies, pack_ngrams

METADATA = {"format": "sct document frequencies", "version": "1"}
CAPTIONS = st.lists(st.sampled_from("abcdefgh"), max_size=10)


def naive_counts(documents):
    """Number of documents with each n-gram."""
    counts = Counter()
    for document in documents:
        counts.update(
            {
                tuple(words[start : start + length])
                for words in document
                for length in (1, 2, 3, 4)
                for start in range(len(words) - length + 1)
            }
        )
    return counts


def naive_key(words, ngram):
    """Key as a Python integer, wrapped to signed 64 bits."""
    key = sum((words.index(word) + 1) << (16 * place) for place, word in enumerate(ngram))
    return key - (1 << 64) if key >> 63 else key


def assert_counts(table, documents):
    counts = naive_counts(documents)
    expected = {naive_key(table.words, ngram): count for ngram, count in counts.items() if count > 1}
    assert dict(zip(table.keys.tolist(), table.counts.tolist(), strict=True)) == expected
    assert table.keys.tolist() == sorted(expected)
    assert table.num_documents == len(documents)
    assert sorted(table.words) == sorted(ngram[0] for ngram, count in counts.items() if count > 1 and len(ngram) == 1)
    assert [counts[word,] for word in table.words] == sorted((counts[word,] for word in table.words), reverse=True)
    for ngram, count in counts.items():
        assert table.document_count(" ".join(ngram)) == count


@given(st.lists(st.lists(CAPTIONS, min_size=1, max_size=3), min_size=1, max_size=6))
def test_from_references(documents):
    pairs = pair_words([["a"] for _ in documents], documents)
    assert_counts(DocumentFrequencies.from_references(pairs), documents)


@given(st.lists(CAPTIONS, min_size=1, max_size=10))
def test_from_words_and_captions(captions):
    assert_counts(DocumentFrequencies.from_words(captions), [[words] for words in captions])
    assert_counts(
        DocumentFrequencies.from_captions([" ".join(words) for words in captions]), [[words] for words in captions]
    )


@pytest.mark.parametrize(
    ("word_ids", "key"),
    [
        pytest.param([0], 1, id="unigram"),
        pytest.param([1, 0], 2 + (1 << 16), id="first word lowest"),
        pytest.param([65534], 65535, id="largest id"),
        pytest.param([0, 0, 0, 65534], 1 + (1 << 16) + (1 << 32) - (1 << 48), id="negative"),
        pytest.param([2, -1, -1, -1], 3, id="missing words"),
    ],
)
def test_pack_ngrams(word_ids, key):
    assert pack_ngrams(np.array([word_ids])).tolist() == [key]


@given(st.lists(CAPTIONS, min_size=1, max_size=10))
def test_save_load_round_trip(tmp_path_factory, captions):
    table = DocumentFrequencies.from_words(captions)
    path = tmp_path_factory.mktemp("tables") / "table.safetensors"
    table.save(path)
    loaded = DocumentFrequencies.load(path)
    assert (loaded.words, loaded.num_documents) == (table.words, table.num_documents)
    np.testing.assert_array_equal(loaded.keys, table.keys)
    np.testing.assert_array_equal(loaded.counts, table.counts)


def test_load_rejects_folders(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        DocumentFrequencies.load(tmp_path)


def test_load_names_a_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"table\.safetensors does not exist"):
        DocumentFrequencies.load(tmp_path / "table.safetensors")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        pytest.param(b"", "is damaged", id="empty"),
        pytest.param(b"not a table", "is damaged", id="text"),
        pytest.param(safetensors.numpy.save({"keys": np.zeros(1)}), "got format None", id="another format"),
        pytest.param(
            safetensors.numpy.save(
                {"keys": np.arange(2), "counts": np.full(1, 2)}, {**METADATA, "words": "[]", "documents": "3"}
            ),
            r"got n-grams int64 \(2,\) and counts int64 \(1,\)",
            id="missing count",
        ),
        pytest.param(
            safetensors.numpy.save({"keys": np.arange(2), "counts": np.full(2, 2)}, {**METADATA, "documents": "3"}),
            "'words' is missing",
            id="no words",
        ),
        pytest.param(
            safetensors.numpy.save(
                {"keys": np.arange(0), "counts": np.zeros(0, np.int32)},
                {**METADATA, "words": "[" * 100_000, "documents": "3"},
            ),
            "nested too deeply",
            id="deep nesting",
        ),
        pytest.param(
            safetensors.numpy.save(
                {"keys": np.arange(0), "counts": np.zeros(0, np.int32)}, {**METADATA, "words": "[5]", "documents": "3"}
            ),
            "its words are not a list of strings",
            id="a number among the words",
        ),
        pytest.param(
            safetensors.numpy.save(
                {"keys": np.arange(0), "counts": np.zeros(0, np.int32)}, {**METADATA, "words": "[]", "documents": "x"}
            ),
            "got 'x' documents",
            id="not a number of documents",
        ),
    ],
)
def test_load_rejects_other_files(tmp_path, content, fault):
    path = tmp_path / "table.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError, match=fault):
        DocumentFrequencies.load(path)


@pytest.mark.parametrize(
    ("keys", "counts", "documents", "fault"),
    [
        pytest.param([], [], 0, "got no documents", id="no documents"),
        pytest.param([2, 1], [2, 2], 3, "unsorted n-gram keys", id="unsorted"),
        pytest.param([1], [4], 3, "expected 2 to 3", id="more than documents"),
        pytest.param([1], [1], 3, "expected 2 to 3", id="single document"),
    ],
)
def test_inconsistent_fields_are_rejected(keys, counts, documents, fault):
    keys, counts = np.array(keys, dtype=np.int64), np.array(counts, dtype=np.int32)
    with pytest.raises(InputError, match=fault):
        DocumentFrequencies(("a", "b"), keys, counts, documents)


def test_too_many_words_are_rejected(monkeypatch):
    monkeypatch.setattr(document_frequencies, "MAX_WORDS", 2)
    assert DocumentFrequencies.from_captions(["a b c", "a b d"]).words == ("a", "b")
    with pytest.raises(InputError, match="got 3 words that occur in two or more documents"):
        DocumentFrequencies.from_captions(["a b c", "a b c"])
