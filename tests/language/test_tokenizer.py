"""Comparison with the official tokenizer.

Expected values were recorded from the Java tokenizer of pycocoevalcap 1.2, with its punctuation list applied.
"""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.language import tokenizer
from sct.language.tokenizer import Token, tokenize, tokenize_with_spans

RECORDED = [
    # no words
    ("", ""),
    (" ", ""),
    (".", ""),
    # contractions
    ("a man's hat", "a man 's hat"),
    ("the dogs' bowls", "the dogs bowls"),
    ("They don't, can't and won't.", "they do n't ca n't and wo n't"),
    (
        "she'd say it's theirs; we've seen they'll go, I'm sure you're",
        "she 'd say it 's theirs we 've seen they 'll go i 'm sure you 're",
    ),
    ("You cannot go", "you can not go"),
    (
        "I'm gonna say I gotta run, lemme go, gimme that, wanna bet",
        "i 'm gon na say i got ta run lem me go gim me that wan na bet",
    ),
    ("the 90's", "the 90 's"),
    ("rock 'n' roll and rock'n roll", "rock 'n' roll and rock 'n roll"),
    ("half past two o'clock", "half past two o'clock"),
    ("O'Brien's hors d'oeuvres, l'heure", "o'brien 's hors d'oeuvres l'heure"),
    ("a po'boy", "a po boy"),
    ("at Dunkin' Donuts", "at dunkin' donuts"),
    ("CAN'T STOP JOE'S", "ca n't stop joe 's"),
    # hyphens, dashes and slashes
    ("a black-and-white T-shirt", "a black-and-white t-shirt"),
    ("a half- eaten pie", "a half eaten pie"),
    ("one - two -- three --- four", "one two three four"),
    ("his/her and/or their", "his/her and/or their"),
    ("a 1/2-inch gap", "a 1/2-inch gap"),
    ("a pick-up/drop-off zone", "a pick-up/drop-off zone"),
    ("yes / no", "yes / no"),
    ("snake_case and _private_", "snake_case and _ private _"),
    # abbreviations and full stops
    ("Mr. Smith and Dr. Jones of St. Paul", "mr. smith and dr. jones of st. paul"),
    ("a shop on Elm St.", "a shop on elm st."),
    ("a shop on Elm Street.", "a shop on elm street"),
    ("the U.S. team in the U.S.", "the u.s. team in the u.s."),
    ("a t.v. set, a T.V.", "a t.v. set a t.v."),
    ("Jan. 5, at 5 p.m.", "jan. 5 at 5 p.m."),
    ("bread, milk, etc.", "bread milk etc."),
    ("a cat.,a dog", "a cat. a dog"),
    ("a cat.A dog", "a cat.a dog"),
    ("a cat. A dog", "a cat a dog"),
    ("in the shape of a T.", "in the shape of a t."),
    ("oh no.", "oh no"),
    ("on Trust Blvd.. etc...", "on trust blvd. etc."),
    # numbers and money
    ("1,000 and 3.5 and .5", "1,000 and 3.5 and .5"),
    ("at 10:30 or 10:30pm", "at 10:30 or 10:30 pm"),
    ("it costs $5, $11.98/kilogram or 50%", "it costs $ 5 $ 11.98 / kilogram or 50 %"),
    ("4 of 5 stars", "4 of 5 stars"),
    ("the 1st, 2nd and 33rd of the 1990s", "the 1st 2nd and 33rd of the 1990s"),
    ("1/2 a cup on 9/1/04", "1/2 a cup on 9/1/04"),
    ("call 555-123-4567", "call 555-123-4567"),
    ("score of 3-2", "score of 3-2"),
    ("a 6-8:30 shift", "a 6-8 :30 shift"),
    ("plates,2 cups", "plates ,2 cups"),
    ("#5 and (#6)", "# 5 and -lrb- # 6 -rrb-"),
    ("5'6\" tall", "5 6 tall"),
    ("a 4x4 and a 3D film", "a 4x4 and a 3d film"),
    # symbols
    ("a (small) box [blue] {red}", "a -lrb- small -rrb- box -lsb- blue -rsb- -lcb- red -rcb-"),
    ("she said \"stop\" and 'go' and ``wait''", "she said stop and go and wait"),
    ("what?! no!! really???", "what ?! no !! really ???"),
    ("wait... what....", "wait what"),
    ("well . . . yes", "well yes"),
    ("so: one; two", "so one two"),
    ("salt & pepper from A&P, not a&p", "salt & pepper from a&p not a & p"),
    ("a = b + c * d", "a = b + c * d"),
    ("path\\to", "path \\ to"),
    ("see www.site.com", "see www.site.com"),
    ("site.com is up", "site.com is up"),
    ("open 5.jpg or pic.png", "open 5.jpg or pic.png"),
    # non-ASCII
    ("the man\u2019s \u201cbig\u201d caf\xe9 \u2026 \u2014 na\xefve", "the man 's big caf\xe9 na\xefve"),
    ("a happy \U0001f600 face\U0001f600s", "a happy face s"),
    ("zero\u200bwidth and no\xa0break", "zero width and no break"),
    # whitespace
    ("  a  cat\tsat\n on a mat  ", "a cat sat on a mat"),
    ("\n", ""),
]


@pytest.mark.parametrize(("text", "words"), [pytest.param(text, words, id=ascii(text)) for text, words in RECORDED])
def test_equals_the_official_tokenizer(text, words):
    expected = words.split(" ") if words else []
    assert tokenize(text) == expected
    assert [word.text for word in tokenize_with_spans(text)] == expected


def read_recorded():
    lines = Path(__file__).with_name("ptb_tokens.jsonl").read_text(encoding="utf-8").splitlines()
    by_class = {}
    for line in lines:
        case = json.loads(line)
        by_class.setdefault(case["class"], []).append(case)
    return by_class


KNOWN_DIFFERENCES = {"&apos;dog&apos;": ["&", "apos", "dog", "&", "apos"]}


@pytest.mark.parametrize(("name", "cases"), read_recorded().items())
def test_equals_the_official_tokenizer_on_captions_made_to_break_it(name, cases):
    """Recorded by ``benchmarks/speed/tokenizer.py --record``; tokens are split at spaces, as by BLEU and CIDEr."""
    differing = {}
    for case in cases:
        expected = [word for token in case["tokens"] for word in token.split()]
        words = [token.text for token in tokenize_with_spans(case["caption"])]
        assert words == tokenize(case["caption"])
        if words != expected:
            differing[case["caption"]] = words
    assert differing == {caption: words for caption, words in KNOWN_DIFFERENCES.items() if caption in differing}


@pytest.mark.parametrize(
    "unit",
    ["<a ", "<!x ", "< ", '<a b="', "a,", "a..", "5.a.", "a;", "a@", "www.;.", "http://!", "(555)", "<a" + " " * 50],
)
def test_time_is_linear_in_the_length(unit):
    """Quadratic time would take minutes."""
    text = (unit * 20_000)[:20_000]
    assert tokenize(text) == [token.text for token in tokenize_with_spans(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", [], id="no text"),
        pytest.param('a <b c="d"> e', [("a", "a"), ("<b", "<b"), ('c="d">', 'c="d">'), ("e", "e")], id="a tag"),
        pytest.param(
            "caf\xe9 5\u20ac \U0001f600 x",
            [("caf\xe9", "caf\xe9"), ("5", "5"), ("$", "\u20ac"), ("x", "x")],
            id="symbols",
        ),
        pytest.param("  A cat.", [("a", "A"), ("cat", "cat")], id="lower case and without the full stop"),
        pytest.param("I can't", [("i", "I"), ("ca", "ca"), ("n't", "n't")], id="a contraction"),
        pytest.param(
            "(it\u2019s)",
            [("-lrb-", "("), ("it", "it"), ("'s", "\u2019s"), ("-rrb-", ")")],
            id="rewritten brackets and quotes",
        ),
        pytest.param("5\ncups", [("5", "5"), ("cups", "cups")], id="a line break"),
        pytest.param("wait.... etc.", [("wait", "wait"), ("etc.", "etc.")], id="dropped punctuation"),
    ],
)
def test_spans_cover_the_original_text(text, words):
    assert [(word.text, text[word.start : word.end]) for word in tokenize_with_spans(text)] == words


def test_spans_are_relative_to_the_text():
    assert tokenize_with_spans("a dog's  toy") == [
        Token("a", 0, 1),
        Token("dog", 2, 5),
        Token("'s", 5, 7),
        Token("toy", 9, 12),
    ]


captions = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.text(alphabet="abnstAT.,'-/&@#$%0123456789()<>\"!?:;_ \n", max_size=12),
        st.sampled_from([" ", "cat", "can't", "U.S.", "etc.", "no. 5", "1 1/2", "(555) 123-4567", "\u2019s", "</b>"]),
    ),
    max_size=6,
).map("".join)


@given(captions)
def test_spans_are_ordered_and_within_the_text(text):
    words = tokenize_with_spans(text)
    edges = [edge for word in words for edge in (word.start, word.end)]
    assert edges == sorted(edges)
    assert all(0 <= word.start < word.end <= len(text) for word in words)
    assert [word.text for word in words] == tokenize(text)
    assert all(word.text and not word.text.isspace() for word in words)


@given(captions)
def test_every_letter_and_digit_is_in_a_token(text):
    covered = {index for word in tokenize_with_spans(text) for index in range(word.start, word.end)}
    assert not [index for index, char in enumerate(text) if char.isascii() and char.isalnum() and index not in covered]


@given(st.lists(st.sampled_from(["a", "cat", "sat", "dogs", "Two", "mat"]), max_size=8))
def test_plain_words_are_lower_cased(words):
    assert tokenize(" ".join(words)) == [word.lower() for word in words]


def test_the_memo_is_bounded(monkeypatch):
    monkeypatch.setattr(tokenizer, "_MAX_MEMO_SIZE", 10)
    numbered = [f"cat{number}" for number in range(100)]
    assert tokenize(" ".join(numbered)) == numbered
    assert [word.text for word in tokenize_with_spans(" ".join(numbered))] == numbered
    assert max(len(tokenizer._texts_of_piece), len(tokenizer._tokens_of_piece)) <= 10
