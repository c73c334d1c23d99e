from collections import Counter

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from sct.errors import InputError
from sct.metrics import document_frequencies
from sct.metrics.captions import pair_words
from sct.metrics.document_frequencies import DocumentFrequencies, pack

METADATA = {"kind": "sct document frequencies 1"}
captions = st.lists(st.sampled_from("abcdefgh"), max_size=10)


def naive_counts(documents):
    """In how many documents each n-gram stands."""
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
    """The packing in plain numbers, folded to signed ones."""
    key = sum((words.index(word) + 1) << (16 * place) for place, word in enumerate(ngram))
    return key - (1 << 64) if key >> 63 else key


def assert_holds(table, documents):
    counts = naive_counts(documents)
    expected = {naive_key(table.words, ngram): count for ngram, count in counts.items() if count > 1}
    assert dict(zip(table.keys.tolist(), table.counts.tolist(), strict=True)) == expected
    assert table.keys.tolist() == sorted(expected)
    assert table.num_documents == len(documents)
    assert sorted(table.words) == sorted(ngram[0] for ngram, count in counts.items() if count > 1 and len(ngram) == 1)
    assert [counts[word,] for word in table.words] == sorted((counts[word,] for word in table.words), reverse=True)
    for ngram, count in counts.items():
        assert table.documents_with(" ".join(ngram)) == count


@given(st.lists(st.lists(captions, min_size=1, max_size=3), min_size=1, max_size=6))
def test_counts_groups_of_references(documents):
    pairs = pair_words([["a"] for _ in documents], documents)
    assert_holds(DocumentFrequencies.of_references(pairs), documents)


@given(st.lists(captions, min_size=1, max_size=10))
def test_counts_captions(found):
    assert_holds(DocumentFrequencies.of_words(found), [[words] for words in found])
    assert_holds(DocumentFrequencies.of_captions([" ".join(words) for words in found]), [[words] for words in found])


@pytest.mark.parametrize(
    ("numbers", "key"),
    [
        pytest.param([0], 1, id="a word"),
        pytest.param([1, 0], 2 + (1 << 16), id="two, the first lowest"),
        pytest.param([65534], 65535, id="the last word there may be"),
        pytest.param([0, 0, 0, 65534], 1 + (1 << 16) + (1 << 32) - (1 << 48), id="negative"),
        pytest.param([2, -1, -1, -1], 3, id="no further words"),
    ],
)
def test_packs_sixteen_bits_a_word(numbers, key):
    assert pack(np.array([numbers])).tolist() == [key]


@given(st.lists(captions, min_size=1, max_size=10))
def test_a_saved_table_comes_back(tmp_path_factory, found):
    table = DocumentFrequencies.of_words(found)
    path = tmp_path_factory.mktemp("tables") / "table.safetensors"
    table.save(path)
    loaded = DocumentFrequencies.load(path)
    assert (loaded.words, loaded.num_documents) == (table.words, table.num_documents)
    np.testing.assert_array_equal(loaded.keys, table.keys)
    np.testing.assert_array_equal(loaded.counts, table.counts)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="is no safetensors file"):
        DocumentFrequencies.load(tmp_path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"table\.safetensors does not exist"):
        DocumentFrequencies.load(tmp_path / "table.safetensors")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        pytest.param(b"", "is no safetensors file", id="empty"),
        pytest.param(b"not a table", "is no safetensors file", id="text"),
        pytest.param(safetensors.numpy.save({"keys": np.zeros(1)}), "no table of document frequencies", id="another"),
        pytest.param(
            safetensors.numpy.save(
                {"keys": np.arange(2), "counts": np.full(1, 2)}, {**METADATA, "words": "[]", "documents": "3"}
            ),
            "holds 2 n-grams and 1 counts",
            id="a count too few",
        ),
        pytest.param(
            safetensors.numpy.save({"keys": np.arange(2), "counts": np.full(2, 2)}, {**METADATA, "documents": "3"}),
            "lacks words or documents",
            id="no words",
        ),
    ],
)
def test_another_file_is_refused(tmp_path, content, fault):
    path = tmp_path / "table.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError, match=fault):
        DocumentFrequencies.load(path)


@pytest.mark.parametrize(
    ("keys", "counts", "documents", "fault"),
    [
        pytest.param([], [], 0, "no document", id="no document"),
        pytest.param([2, 1], [2, 2], 3, "must rise", id="not in order"),
        pytest.param([1], [4], 3, "from 2 to 3", id="more than there are documents"),
        pytest.param([1], [1], 3, "from 2 to 3", id="in one document only"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(keys, counts, documents, fault):
    keys, counts = np.array(keys, dtype=np.int64), np.array(counts, dtype=np.int32)
    with pytest.raises(InputError, match=fault):
        DocumentFrequencies(("a", "b"), keys, counts, documents)


def test_too_many_words_are_refused(monkeypatch):
    monkeypatch.setattr(document_frequencies, "MOST_WORDS", 2)
    assert DocumentFrequencies.of_captions(["a b c", "a b d"]).words == ("a", "b")
    with pytest.raises(InputError, match="3 words stand in two documents or more"):
        DocumentFrequencies.of_captions(["a b c", "a b c"])
