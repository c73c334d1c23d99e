import pytest

from sct.language.noun_chunks import NounChunker, label_words
from sct.language.tokenizer import tokenize_with_spans


@pytest.fixture(scope="module")
def chunker():
    return NounChunker()


@pytest.mark.parametrize(
    ("text", "phrases", "nouns"),
    [
        pytest.param("", [], [], id="no words"),
        pytest.param("Running and jumping .", [], [], id="no noun"),
        pytest.param("Children eat a hot dog .", ["Children", "a hot dog"], ["child", "dog"], id="lemmas"),
        pytest.param("It is looking at itself .", [], [], id="pronouns are dropped"),
        pytest.param("A group of people ski .", ["A group of people"], ["people"], id="measure noun"),
        pytest.param(
            "A large bunch of bananas", ["A large bunch of bananas"], ["banana"], id="measure noun with an adjective"
        ),
        pytest.param("A dog in front of a house .", ["A dog", "a house"], ["dog", "house"], id="part of a preposition"),
        pytest.param(
            "The front of a house .", ["The front", "a house"], ["front", "house"], id="not part of a preposition"
        ),
    ],
)
def test_noun_chunks_of_a_caption(chunker, text, phrases, nouns):
    [found] = chunker.chunks([text])
    assert [text[chunk.start : chunk.end] for chunk in found] == phrases
    assert [chunk.lemma for chunk in found] == nouns


def test_number_and_modifiers(chunker):
    [[men, dog]] = chunker.chunks(["Two old men walk a dog ."])
    assert (men.is_plural, men.modifiers, men.noun) == (True, ("two", "old"), "men")
    assert (dog.is_plural, dog.modifiers) == (False, ("a",))


@pytest.mark.parametrize(
    ("text", "phrases", "labels"),
    [
        pytest.param("", [], [], id="no words"),
        pytest.param("a dog runs", [], [None, None, None], id="no spans"),
        pytest.param("a dog runs", ["a dog"], [0, 0, None], id="one"),
        pytest.param("a dog and a cat", ["a dog", "a cat"], [0, 0, None, 1, 1], id="two"),
        pytest.param("a tri-colored dog", ["colored dog"], [None, 0, 0], id="a span that starts inside a word"),
        pytest.param("a big dog", ["a big dog", "dog"], [0, 0, 0], id="overlapping spans: the first takes the word"),
    ],
)
def test_label_words(text, phrases, labels):
    spans = [(text.index(phrase), text.index(phrase) + len(phrase)) for phrase in phrases]
    assert label_words(tokenize_with_spans(text), spans) == labels
