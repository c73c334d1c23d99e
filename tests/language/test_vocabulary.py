import json

import pytest

from sct.errors import InputError
from sct.language.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS, UNK, Vocabulary, read_vocabulary

COUNTS = {"a": 9, "dog": 4, "cat": 4, "okapi": 1}


@pytest.mark.parametrize(
    ("counts", "min_count", "words"),
    [
        pytest.param({}, 5, (), id="no words"),
        pytest.param(COUNTS, 1, ("a", "cat", "dog", "okapi"), id="by frequency, ties alphabetical"),
        pytest.param(COUNTS, 4, ("a", "cat", "dog"), id="min_count is inclusive"),
        pytest.param({"<pad>": 9, "a": 9}, 5, ("a",), id="a special token among the words"),
    ],
)
def test_words_are_ordered_by_frequency(counts, min_count, words):
    assert Vocabulary.from_counts(counts, min_count=min_count).words == SPECIAL_TOKENS + words


def test_a_higher_min_count_gives_a_prefix():
    every_word = Vocabulary.from_counts(COUNTS, min_count=0)
    assert every_word.with_min_count(4) == Vocabulary.from_counts(COUNTS, min_count=4)


def test_encode_and_decode():
    vocabulary = Vocabulary.from_counts(COUNTS, min_count=4)
    assert vocabulary.encode(["a", "dog", "okapi"]) == [4, 6, UNK]
    assert vocabulary.decode([BOS, 4, 6, PAD, EOS, 4]) == ["a", "dog"]
    assert vocabulary.decode([7]) == ["<unk>"], "ids beyond the end are unknown words"


def test_save_and_load(tmp_path):
    vocabulary = Vocabulary.from_counts({"naïve": 3, "a": 9}, min_count=0)
    vocabulary.save(tmp_path / "vocabulary.json")
    assert Vocabulary.load(tmp_path / "vocabulary.json") == vocabulary


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("", "is not valid JSON", id="empty file"),
        pytest.param("[]", "not a vocabulary", id="a list"),
        pytest.param(json.dumps({"words": ["a"], "counts": [1]}), "begins with", id="no special tokens"),
        pytest.param(json.dumps({"words": [*SPECIAL_TOKENS, "a", "a"], "counts": [0] * 6}), "twice", id="a word twice"),
        pytest.param(
            json.dumps({"words": [*SPECIAL_TOKENS, "a"], "counts": [0] * 4}), "4 counts", id="a missing count"
        ),
        pytest.param(json.dumps({"words": [*SPECIAL_TOKENS, 7], "counts": [0] * 5}), "list of words", id="a number"),
        pytest.param("[" * 100_000, "nested too deeply", id="deep nesting"),
        pytest.param(json.dumps({"words": {}, "counts": []}), "list of words", id="an object"),
        pytest.param(
            json.dumps({"words": [*SPECIAL_TOKENS, "a"], "counts": [0] * 4 + [True]}), "list of", id="a truth value"
        ),
        pytest.param(json.dumps({"words": [*SPECIAL_TOKENS, ""], "counts": [0] * 5}), "Unicode words", id="no word"),
        pytest.param(
            json.dumps({"words": [*SPECIAL_TOKENS, "\ud800"], "counts": [0] * 5}),
            "Unicode words",
            id="a lone surrogate",
        ),
        pytest.param(
            json.dumps({"words": [*SPECIAL_TOKENS, "a" * 2000], "counts": [0] * 5}), "Unicode words", id="a huge word"
        ),
        pytest.param(json.dumps({"words": [*SPECIAL_TOKENS], "counts": [0, 0, 0, -1]}), "the count -1", id="negative"),
        pytest.param(
            json.dumps({"words": [*SPECIAL_TOKENS], "counts": [0, 0, 0, 10**100]}), "the count", id="a huge count"
        ),
    ],
)
def test_an_invalid_vocabulary_is_an_error(tmp_path, content, message):
    path = tmp_path / "vocabulary.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        Vocabulary.load(path)


def test_a_vocabulary_is_bounded(tmp_path, monkeypatch):
    path = tmp_path / "vocabulary.json"
    Vocabulary.from_counts(COUNTS, min_count=0).save(path)
    monkeypatch.setattr("sct.language.vocabulary.MAX_VOCABULARY_SIZE", 7)
    with pytest.raises(InputError, match=r"vocabulary\.json: vocabulary has 8 words: expected at most 7"):
        Vocabulary.load(path)
    monkeypatch.setattr("sct.language.vocabulary.MAX_VOCABULARY_BYTES", 10)
    with pytest.raises(InputError, match="bytes"):
        Vocabulary.load(path)


def test_special_tokens_in_a_caption_are_unknown_words():
    vocabulary = Vocabulary.from_counts({"a": 9, "<unk>": 9, "<eos>": 9}, min_count=0)
    assert vocabulary.words == (*SPECIAL_TOKENS, "a")
    assert vocabulary.encode(["a", *SPECIAL_TOKENS]) == [4, UNK, UNK, UNK, UNK]


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.json does not exist"):
        Vocabulary.load(tmp_path / "nowhere.json")


SPECIAL_LINES = "".join(f"{word}\n" for word in SPECIAL_TOKENS)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("", [], id="an empty file"),
        pytest.param("a\ndog\n", ["a", "dog"], id="no special tokens"),
        pytest.param(SPECIAL_LINES + "a\ndog\n", ["a", "dog"], id="special tokens first"),
        pytest.param("a\ndog", ["a", "dog"], id="no newline at the end"),
        pytest.param("\ufeffa\r\ndog\r\n", ["a", "dog"], id="Windows line endings and BOM"),
        pytest.param("na\u0308\nbe\u2019s\n", ["na\u0308", "be\u2019s"], id="non-ASCII"),
    ],
)
def test_read_words_one_per_line(content, words, tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes(content.encode("utf-8"))
    assert read_vocabulary(path).words == (*SPECIAL_TOKENS, *words)


def test_read_json(tmp_path):
    vocabulary = Vocabulary.from_counts({"dog": 7, "a": 9})
    vocabulary.save(tmp_path / "vocabulary.json")
    assert read_vocabulary(tmp_path / "vocabulary.json") == vocabulary


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"a\n\ndog\n", "line 2: got '', expected one word per line", id="an empty line"),
        pytest.param(b"a\nhot dog\n", "line 2: got 'hot dog', expected one word per line", id="two words"),
        pytest.param(b"a\ndog\na\n", "the word 'a' twice", id="a word twice"),
        pytest.param(b"a\n<pad>\n", "line 2: got <pad>, expected <unk>", id="a special token later"),
        pytest.param(
            b"<pad>\n<unk>\n<bos>\n<eos>\na\n", "line 1: got <pad>, expected <unk>", id="special tokens out of order"
        ),
        pytest.param(b"a\n\xff\xfe\n", "is not UTF-8", id="not text"),
    ],
)
def test_an_invalid_word_list_is_an_error(content, message, tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"words\.txt") as error:
        read_vocabulary(path)
    assert message in str(error.value)


def test_reading_a_missing_file_or_a_folder_is_an_error(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_vocabulary(tmp_path / "nowhere.txt")
    with pytest.raises(InputError, match="is a folder"):
        read_vocabulary(tmp_path)
