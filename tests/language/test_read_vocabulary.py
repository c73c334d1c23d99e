"""Vocabularies from JSON and from plain text."""

import pytest

from sct.errors import InputError
from sct.language.vocabulary import SPECIAL_TOKENS, Vocabulary, read_vocabulary

SPECIAL_LINES = "".join(f"{word}\n" for word in SPECIAL_TOKENS)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("", [], id="an empty file"),
        pytest.param("a\ndog\n", ["a", "dog"], id="no special words"),
        pytest.param(SPECIAL_LINES + "a\ndog\n", ["a", "dog"], id="special words first"),
        pytest.param("a\ndog", ["a", "dog"], id="no newline at the end"),
        pytest.param("\ufeffa\r\ndog\r\n", ["a", "dog"], id="as Windows writes it"),
        pytest.param("na\u0308\nbe\u2019s\n", ["na\u0308", "be\u2019s"], id="beyond ASCII"),
    ],
)
def test_words_in_their_order(content, words, tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes(content.encode("utf-8"))
    assert read_vocabulary(path).words == (*SPECIAL_TOKENS, *words)


def test_json(tmp_path):
    vocabulary = Vocabulary.from_counts({"dog": 7, "a": 9})
    vocabulary.save(tmp_path / "vocabulary.json")
    assert read_vocabulary(tmp_path / "vocabulary.json") == vocabulary


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"a\n\ndog\n", "line 2: '' is not one word", id="an empty line"),
        pytest.param(b"a\nhot dog\n", "line 2: 'hot dog' is not one word", id="two words"),
        pytest.param(b"a\ndog\na\n", "the word 'a' twice", id="a word twice"),
        pytest.param(b"a\n<pad>\n", "line 2: <pad> is out of its place", id="a special word later on"),
        pytest.param(b"<pad>\n<unk>\n<bos>\n<eos>\na\n", "line 1: <pad> is out of", id="special words in disorder"),
        pytest.param(b"a\n\xff\xfe\n", "is not UTF-8", id="not text"),
    ],
)
def test_refuses(content, message, tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"words\.txt") as error:
        read_vocabulary(path)
    assert message in str(error.value)


def test_refuses_what_is_no_file(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_vocabulary(tmp_path / "nowhere.txt")
    with pytest.raises(InputError, match="is a folder"):
        read_vocabulary(tmp_path)
