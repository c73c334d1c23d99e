import json

import pytest

from sct.errors import InputError
from sct.language.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS, UNK, Vocabulary

COUNTS = {"a": 9, "dog": 4, "cat": 4, "okapi": 1}


@pytest.mark.parametrize(
    ("counts", "min_count", "words"),
    [
        pytest.param({}, 5, (), id="no words"),
        pytest.param(COUNTS, 1, ("a", "cat", "dog", "okapi"), id="by frequency, ties by the alphabet"),
        pytest.param(COUNTS, 4, ("a", "cat", "dog"), id="a threshold is met, not passed"),
        pytest.param({"<pad>": 9, "a": 9}, 5, ("a",), id="a special word in a caption is not counted twice"),
    ],
)
def test_words_stand_in_a_defined_order(counts, min_count, words):
    assert Vocabulary.from_counts(counts, min_count=min_count).words == SPECIAL_TOKENS + words


def test_a_stricter_vocabulary_is_a_prefix():
    every_word = Vocabulary.from_counts(COUNTS, min_count=0)
    assert every_word.with_min_count(4) == Vocabulary.from_counts(COUNTS, min_count=4)


def test_encodes_and_decodes():
    vocabulary = Vocabulary.from_counts(COUNTS, min_count=4)
    assert vocabulary.encode(["a", "dog", "okapi"]) == [4, 6, UNK]
    assert vocabulary.decode([BOS, 4, 6, PAD, EOS, 4]) == ["a", "dog"]
    assert vocabulary.decode([7]) == ["<unk>"], "an id past the end is a word that was cut"


def test_saved_and_loaded_it_is_the_same(tmp_path):
    vocabulary = Vocabulary.from_counts({"naïve": 3, "a": 9}, min_count=0)
    vocabulary.save(tmp_path / "vocabulary.json")
    assert Vocabulary.load(tmp_path / "vocabulary.json") == vocabulary


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("", "not a vocabulary", id="empty file"),
        pytest.param("[]", "not a vocabulary", id="a list"),
        pytest.param(json.dumps({"words": ["a"], "counts": [1]}), "starts with", id="no special words"),
        pytest.param(json.dumps({"words": [*SPECIAL_TOKENS, "a", "a"], "counts": [0] * 6}), "twice", id="a word twice"),
        pytest.param(json.dumps({"words": [*SPECIAL_TOKENS, "a"], "counts": [0] * 4}), "4 counts", id="a count short"),
        pytest.param(json.dumps({"words": [*SPECIAL_TOKENS, 7], "counts": [0] * 5}), "list of words", id="a number"),
    ],
)
def test_refuses_what_is_no_vocabulary(tmp_path, content, message):
    path = tmp_path / "vocabulary.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        Vocabulary.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.json does not exist"):
        Vocabulary.load(tmp_path / "nowhere.json")
