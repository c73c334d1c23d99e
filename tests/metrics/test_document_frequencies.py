import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from sct.errors import InputError
from sct.metrics.captions import pair_words
from sct.metrics.cider import cider_d
from sct.metrics.document_counts import DocumentCounts
from sct.metrics.document_frequencies import DocumentFrequencies, PartialDocumentFrequencies

METADATA = {"format": "sct document frequencies", "version": "2", "documents": "3"}
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


def listed_counts(table):
    return {
        tuple(table.words[word] for word in ngram): count
        for ngrams, counts in zip(table.ngram_words(), table.counts, strict=True)
        for ngram, count in zip(ngrams.tolist(), counts.tolist(), strict=True)
    }


def assert_counts(found, documents):
    counts = naive_counts(documents)
    assert listed_counts(found.table) == {ngram: count for ngram, count in counts.items() if count > 1}
    assert found.num_documents == len(documents)
    assert list(found.words) == sorted(found.words, key=lambda word: (-counts[word,], word))
    for ngram, count in counts.items():
        assert found.document_count(" ".join(ngram)) == count
    assert found.document_count("x") == found.document_count("a b c d e") == found.document_count("") == 1


def assert_same(found, expected):
    """Equal to the last bit."""
    found, expected = found.table, expected.table
    assert (found.words, found.num_documents) == (expected.words, expected.num_documents)
    for own, other in zip((*found.keys, *found.counts), (*expected.keys, *expected.counts), strict=True):
        np.testing.assert_array_equal(own, other)
        assert own.dtype == other.dtype


@given(st.lists(st.lists(CAPTIONS, min_size=1, max_size=3), min_size=1, max_size=6))
def test_from_references(documents):
    pairs = pair_words([["a"] for _ in documents], documents)
    assert_counts(DocumentFrequencies.from_references(pairs), documents)
    partial = PartialDocumentFrequencies.from_references(pairs)
    assert listed_counts(partial.table) == naive_counts(documents)
    assert_same(partial.finish(), DocumentFrequencies.from_references(pairs))


@given(st.lists(CAPTIONS, min_size=1, max_size=10))
def test_from_words_and_captions(captions):
    assert_counts(DocumentFrequencies.from_words(captions), [[words] for words in captions])
    assert_counts(
        DocumentFrequencies.from_captions([" ".join(words) for words in captions]), [[words] for words in captions]
    )


@given(st.lists(st.lists(CAPTIONS, min_size=1, max_size=4), min_size=1, max_size=7), st.randoms())
def test_merged_parts_equal_the_whole_in_any_order_and_grouping(shards, generator):
    parts = [PartialDocumentFrequencies.from_words(shard) for shard in shards]
    whole = [words for shard in shards for words in shard]
    merged = PartialDocumentFrequencies.merge(parts)
    assert_same(merged, PartialDocumentFrequencies.from_words(whole))
    assert_same(merged.finish(), DocumentFrequencies.from_words(whole))
    generator.shuffle(parts)
    while len(parts) > 1:
        first = generator.randrange(len(parts) - 1)
        parts[first : first + 2] = [PartialDocumentFrequencies.merge(parts[first : first + 2])]
    assert_same(parts[0], merged)


def test_no_parts_are_an_error():
    with pytest.raises(InputError, match="got no document frequencies, expected at least one part"):
        PartialDocumentFrequencies.merge([])


def test_more_than_65535_words(tmp_path):
    captions = [[f"word{number}", f"word{number + 1}", "end"] for number in range(0, 160_000, 2)] * 2
    captions += [["word159998", "word159999"]]
    frequencies = DocumentFrequencies.from_words(captions)
    assert len(frequencies.words) == 160_001
    assert frequencies.document_count("word159998 word159999 end") == 2
    assert frequencies.document_count("word159998 word159999") == 3
    assert frequencies.document_count("word159999 word159998") == 1
    halves = [PartialDocumentFrequencies.from_words(captions[start::2]) for start in range(2)]
    for number, half in enumerate(halves):
        half.save(tmp_path / f"{number}.safetensors")
    parts = (PartialDocumentFrequencies.load(tmp_path / f"{number}.safetensors") for number in range(2))
    assert_same(PartialDocumentFrequencies.merge(parts).finish(), frequencies)


def test_cider_of_shards_equals_that_of_the_whole():
    generator = random.Random(0)

    def caption(longest=12):
        return [f"w{min(int(generator.expovariate(0.1)), 99)}" for _ in range(generator.randint(1, longest))]

    groups = [[caption() for _ in range(generator.randint(1, 5))] for _ in range(300)]
    candidates = [generator.choice(group)[:6] + caption(4) for group in groups]
    whole = cider_d(pair_words(candidates, groups)).per_caption
    shards = [
        pair_words(candidates[start : start + 70], groups[start : start + 70]) for start in range(0, len(groups), 70)
    ]
    merged = PartialDocumentFrequencies.merge(map(PartialDocumentFrequencies.from_references, shards)).finish()
    sharded = np.concatenate([cider_d(shard, merged).per_caption for shard in shards])
    assert whole.max() > 1  # or the captions have too little in common to show anything
    np.testing.assert_allclose(sharded, whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [DocumentFrequencies, PartialDocumentFrequencies])
@given(captions=st.lists(CAPTIONS | st.just(["\n", "", "\ud800"]), min_size=1, max_size=10))
def test_save_load_round_trip(tmp_path_factory, kind, captions):
    table = kind.from_words(captions)
    path = tmp_path_factory.mktemp("tables") / "table.safetensors"
    table.save(path)
    assert_same(kind.load(path), table)


def test_load_rejects_folders(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        DocumentFrequencies.load(tmp_path)


def test_load_names_a_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"table\.safetensors does not exist"):
        DocumentFrequencies.load(tmp_path / "table.safetensors")


def test_partial_and_complete_files_are_not_confused(tmp_path):
    PartialDocumentFrequencies.from_words([["a"]]).save(tmp_path / "part.safetensors")
    with pytest.raises(InputError, match="got format 'sct partial document frequencies'"):
        DocumentFrequencies.load(tmp_path / "part.safetensors")


EMPTY = {f"keys.{size}": np.zeros(0, np.int64) for size in (2, 3, 4)}
EMPTY |= {f"counts.{size}": np.zeros(0, np.int32) for size in (1, 2, 3, 4)}


def encode(text):
    return np.frombuffer(text, np.uint8)


@pytest.mark.parametrize(
    ("tensors", "metadata", "fault"),
    [
        pytest.param({"words": encode(b"[]")}, {"format": "other"}, "got format 'other'", id="another format"),
        pytest.param({}, {}, "it has no words", id="no words"),
        pytest.param({"words": encode(b"[" * 100_000)}, {}, "nested too deeply", id="deep nesting"),
        pytest.param({"words": encode(b"[5]")}, {}, "not a list of strings", id="a number among the words"),
        pytest.param({"words": encode(b"[]")}, {"documents": "x"}, "got 'x' documents", id="no number"),
        pytest.param({"words": encode(b'["a"]')}, {}, r"counts of \[0, 0, 0, 0\] n-grams, expected \[1", id="no count"),
        pytest.param({"words": encode(b"[]"), "keys.2": np.zeros(0)}, {}, "keys.2 is float64", id="another type"),
        pytest.param({"words": encode(b"[]"), "counts.1": np.int32(3)}, {}, r"counts.1 is int32 \(\)", id="no array"),
    ],
)
def test_load_rejects_other_files(tmp_path, tensors, metadata, fault):
    path = tmp_path / "table.safetensors"
    content = {name: np.asarray(value) for name, value in {**EMPTY, **tensors}.items()}
    path.write_bytes(safetensors.numpy.save(content, {**METADATA, **metadata}))
    with pytest.raises(InputError, match=fault):
        DocumentFrequencies.load(path)


@pytest.mark.parametrize("content", [pytest.param(b"", id="empty"), pytest.param(b"not a table", id="text")])
def test_load_rejects_files_that_are_no_tensors(tmp_path, content):
    (tmp_path / "table.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="is damaged"):
        DocumentFrequencies.load(tmp_path / "table.safetensors")


def int64(*values):
    return np.array(values, np.int64)


VALID = DocumentCounts(
    ("a", "b"), (int64(1, 2), int64(), int64()), (int64(3, 2), int64(2, 2), int64(), int64()), num_documents=3
)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        pytest.param({"num_documents": 0}, "got no documents", id="no documents"),
        pytest.param({"keys": (int64(2, 1), int64(), int64())}, "unsorted n-gram keys", id="unsorted"),
        pytest.param({"keys": (int64(1, 4), int64(), int64())}, "keys from 1 to 4", id="a key past the end"),
        pytest.param({"keys": (int64(-1, 1), int64(), int64())}, "keys from -1 to 1", id="a negative key"),
        pytest.param({"keys": (int64(1), int64(), int64())}, "counts of", id="a count too many"),
        pytest.param({"keys": ()}, "sizes", id="no keys"),
        pytest.param({"words": ("a", "a")}, "a word twice", id="a word twice"),
        pytest.param({"counts": (int64(4, 2), *VALID.counts[1:])}, "expected 2 to 3", id="more than documents"),
        pytest.param({"counts": (int64(3, 1), *VALID.counts[1:])}, "expected 2 to 3", id="single document"),
    ],
)
def test_inconsistent_fields_are_rejected(changes, fault):
    assert DocumentFrequencies(VALID).document_count("a b") == 2
    with pytest.raises(InputError, match=fault):
        DocumentFrequencies(replace(VALID, **changes))
