"""Parts of speech of captions' words, a letter each, and the commonest sequences of them.

Nouns of captions by spaCy's part-of-speech tags, and noun tables made of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import tee
from typing import Protocol, runtime_checkable

from sct.errors import InputError
from sct.language.noun_chunks import PIPELINE

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


class PosTagger:
    """Tags the words of our tokeniser in the caption that they stand in.

    >>> list(PosTagger().tags([["a", "brown", "dog", "sleeps"]]))
    ['DANV']
    """

    def __init__(self) -> None:
        """Load the tagger; takes about a second."""
        try:
            import spacy  # noqa: PLC0415

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


def majority_tags(captions: Iterable[tuple[Sequence[str], str]]) -> dict[str, str]:
    """The tag that each word has most often, from captions with their tags; of equals the first by the alphabet.

    >>> majority_tags([(["an", "orange", "cat"], "DAN"), (["an", "orange"], "DN"), (["orange"], "N")])
    {'an': 'D', 'orange': 'N', 'cat': 'N'}
    """
    uses: dict[str, Counter[str]] = {}
    for words, tags in captions:
        for word, tag in zip(words, tags, strict=True):
            uses.setdefault(word, Counter())[tag] += 1
    return {word: min(counts, key=lambda tag: (-counts[tag], tag)) for word, counts in uses.items()}


NOUN_TAGS = frozenset({"NOUN", "PROPN"})
BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
"""As the tagger was taught to see them; the words that our tokeniser has for them pass for names."""


class NounTagger:
    """Tells nouns in the caption they stand in: "orange" is one in "an orange", and none in "an orange cat".

    It tags the words of our tokeniser, not spaCy's, so that every word has one tag.

    >>> list(NounTagger().nouns([["an", "orange", "cat", "eats", "an", "orange"]]))
    [['cat', 'orange']]
    """

    def __init__(self) -> None:
        """Load the tagger; takes about a second."""
        try:
            import spacy  # noqa: PLC0415

            self._pipeline = spacy.load(PIPELINE, exclude=["ner", "parser", "lemmatizer"])
            self._ruler = self._pipeline.get_pipe("attribute_ruler")
        except (ImportError, OSError) as error:
            raise InputError(
                "spaCy's English is not installed: pip install 'show-control-and-tell[prepare]', "
                "or score with a saved noun table"
            ) from error
        self._noun_flags: dict[tuple[int, int], bool] = {}

    def is_noun(self, captions: Iterable[Sequence[str]]) -> Iterator[list[bool]]:
        """Say of each word of each caption whether it is a noun there."""
        from spacy.tokens import Doc  # noqa: PLC0415

        documents = (Doc(self._pipeline.vocab, [BRACKETS.get(word, word) for word in words]) for words in captions)
        # Half of the time goes into the rules that make parts of speech of tags. Without a parser they see nothing but
        # a word and its tag, so what they said of the two once holds from then on.
        flags = self._noun_flags
        for document in self._pipeline.pipe(documents, batch_size=128, disable=["attribute_ruler"]):
            keys = [(token.lower, token.tag) for token in document]
            if not all(key in flags for key in keys):
                self._ruler(document)
                # Signs such as "%" pass for nouns.
                found = [token.pos_ in NOUN_TAGS and token.text[0].isalnum() for token in document]
                flags.update(zip(keys, found, strict=True))
            yield [flags[key] for key in keys]

    def nouns(self, captions: Iterable[Sequence[str]]) -> Iterator[list[str]]:
        """Nouns of each caption, in order.

        Captions cut down to these, paired by ``pair_words``, are scored by their nouns in context.
        """
        captions, again = tee(captions)
        for words, flags in zip(captions, self.is_noun(again), strict=True):
            yield [word for word, flag in zip(words, flags, strict=True) if flag]


def majority_nouns(captions: Iterable[Sequence[str]], tagger: NounTagger | None = None) -> frozenset[str]:
    """Words that are nouns in more than half of the places where captions use them.

    With the same spaCy and the same captions the answer is the same, in whatever order they come.
    """
    uses: Counter[str] = Counter()
    as_noun: Counter[str] = Counter()
    captions, again = tee(captions)
    for words, flags in zip(captions, (tagger or NounTagger()).is_noun(again), strict=True):
        uses.update(words)
        as_noun.update(word for word, flag in zip(words, flags, strict=True) if flag)
    return frozenset(word for word, count in as_noun.items() if 2 * count > uses[word])
