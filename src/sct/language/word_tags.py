"""Parts of speech of captions' words, a letter each, and the commonest sequences of them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from sct.errors import InputError
from sct.language.chunks import PIPELINE
from sct.language.noun_tagger import BRACKETS

NO_TAG = "."
TAGS = f"{NO_TAG}NVDAPROCUTX"
"""Nothing (after a caption's end), noun, verb, determiner, adjective, preposition, adverb, pronoun, conjunction,
number, particle, anything else."""
_LETTERS = {
    "NOUN": "N", "PROPN": "N", "VERB": "V", "AUX": "V", "DET": "D", "ADJ": "A", "ADP": "P", "ADV": "R", "PRON": "O",
    "CCONJ": "C", "SCONJ": "C", "NUM": "U", "PART": "T",
}  # fmt: skip


@runtime_checkable
class Tagger(Protocol):
    """Tells parts of speech."""

    def tags(self, captions: Iterable[Sequence[str]]) -> Iterator[str]:
        """A letter for each word of each caption."""
        ...


class WordTagger:
    """Tags the words of our tokeniser in the caption that they stand in.

    >>> list(WordTagger().tags([["a", "brown", "dog", "sleeps"]]))
    ['DANV']
    """

    def __init__(self) -> None:
        """Load the tagger; takes about a second."""
        try:
            import spacy  # noqa: PLC0415  only the making of a captioner along parts of speech needs it

            self._pipeline = spacy.load(PIPELINE, exclude=["ner", "parser", "lemmatizer"])
        except (ImportError, OSError) as error:
            raise InputError(
                "spaCy's English is not installed: pip install 'show-control-and-tell[prepare]'"
            ) from error

    def tags(self, captions: Iterable[Sequence[str]]) -> Iterator[str]:
        """A letter for each word of each caption."""
        from spacy.tokens import Doc  # noqa: PLC0415

        documents = (Doc(self._pipeline.vocab, [BRACKETS.get(word, word) for word in words]) for words in captions)
        for document in self._pipeline.pipe(documents, batch_size=128):
            yield "".join(_LETTERS.get(token.pos_, "X") for token in document)


def usual_tags(captions: Iterable[tuple[Sequence[str], str]]) -> dict[str, str]:
    """The tag that each word has most often, from captions with their tags; of equals the first by the alphabet.

    >>> usual_tags([(["an", "orange", "cat"], "DAN"), (["an", "orange"], "DN"), (["orange"], "N")])
    {'an': 'D', 'orange': 'N', 'cat': 'N'}
    """
    uses: dict[str, Counter[str]] = {}
    for words, tags in captions:
        for word, tag in zip(words, tags, strict=True):
            uses.setdefault(word, Counter())[tag] += 1
    return {word: min(counts, key=lambda tag: (-counts[tag], tag)) for word, counts in uses.items()}
