import pytest

from sct.language.reference_tokenizer import PUNCTUATION, caption_key, clean_caption, drop_punctuation


def test_there_are_seventeen_punctuation_strings():
    assert len(PUNCTUATION) == len(set(PUNCTUATION)) == 17


@pytest.mark.parametrize(
    ("text", "key"),
    [
        pytest.param("", "", id="empty"),
        pytest.param("A Man.", "a man.", id="lower case, punctuation stays"),
        pytest.param("a\tman\n", "a man", id="tab to space, newline removed"),
        pytest.param(" a man ", " a man ", id="not stripped"),
        pytest.param("a\nman", "aman", id="an inner newline joins words"),
    ],
)
def test_caption_key(text, key):
    assert caption_key(text) == key


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        pytest.param("", "", id="empty"),
        pytest.param(" . , ", "", id="only punctuation"),
        pytest.param("a man's hat .", "a mans hat", id="apostrophe joins"),
        pytest.param("a t-shirt", "a tshirt", id="hyphen joins"),
        pytest.param("black-and-white, old.", "blackandwhite old", id="marks at the end of words"),
        pytest.param('"stop" (sign) a/b & c', '"stop" (sign) a/b & c', id="other marks stay"),
        pytest.param("a -LRB- small -RRB- dog", "a small dog", id="bracket tokens"),
        pytest.param("x-LRB-y", "xy", id="a bracket is removed before its hyphens"),
        pytest.param("-lrb-", "lrb", id="a lower-cased bracket is not one of the strings"),
        pytest.param("a  dog", "a dog", id="two spaces"),
        pytest.param("a dog .. runs", "a dog  runs", id="a token of two marks leaves two spaces"),
        pytest.param("a dog !!", "a dog ", id="an emptied token at the end leaves a space"),
    ],
)
def test_clean_caption(text, cleaned):
    assert clean_caption(text) == cleaned


def test_drop_punctuation_keeps_case_and_marks_inside_words():
    assert drop_punctuation(["A", "man", "'s", "T-shirt", ",", "...", ";", "."]) == ["A", "man", "'s", "T-shirt"]
