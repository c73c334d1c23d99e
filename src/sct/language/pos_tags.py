"""Part-of-speech tags of caption words, one letter each, and the nouns among the words, by spaCy's tagger."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, tee
from threading import Lock
from typing import NamedTuple, Protocol, runtime_checkable

from sct.language.noun_chunks import find_spacy_model, load_spacy

_PIPE_BATCH, _LOCK_BATCH = 128, 1024
"""Captions that spaCy tags at once, and those that are tagged before other threads have a turn."""

NO_TAG = "."
TAGS = f"{NO_TAG}NVDAPROCUTX"
"""None (special tokens), noun, verb, determiner, adjective, preposition, adverb, pronoun, conjunction, number,
particle, other."""
_LETTERS = {
    "NOUN": "N", "PROPN": "N", "VERB": "V", "AUX": "V", "DET": "D", "ADJ": "A", "ADP": "P", "ADV": "R", "PRON": "O",
    "CCONJ": "C", "SCONJ": "C", "NUM": "U", "PART": "T",
}  # fmt: skip
_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
"""From Penn Treebank tokens to spaCy's, which would tag the former as proper nouns."""


@runtime_checkable
class Tagger(Protocol):
    """Interface of part-of-speech taggers."""

    def tags(self, captions: Iterable[Sequence[str]]) -> Iterator[str]:
        """Return one letter of ``TAGS`` for each word of each caption."""
        ...


class _WordTag(NamedTuple):
    letter: str
    is_noun: bool


class PosTagger:
    """Tags tokenized captions in context: "orange" is a noun in "an orange" but not in "an orange cat".

    Threads may share it.

    >>> tagger = PosTagger()
    >>> list(tagger.tags([["a", "brown", "dog", "sleeps"]]))
    ['DANV']
    >>> list(tagger.nouns([["an", "orange", "cat", "eats", "an", "orange"]]))
    [['cat', 'orange']]
    """

    def __init__(self, model: str | None = None) -> None:
        """Load the tagger of a spaCy pipeline, which takes about a second; None: see ``find_spacy_model``."""
        self._pipeline = load_spacy(
            find_spacy_model() if model is None else model,
            require=["tagger", "attribute_ruler"],
            exclude=["ner", "parser", "lemmatizer"],
        )
        self._ruler = self._pipeline.get_pipe("attribute_ruler")
        self._memo: dict[tuple[int, int], _WordTag] = {}
        self._lock = Lock()

    def tags(self, captions: Iterable[Sequence[str]]) -> Iterator[str]:
        """Return one letter of ``TAGS`` for each word of each caption."""
        for tags in self._tag(captions):
            yield "".join([tag.letter for tag in tags])

    def is_noun(self, captions: Iterable[Sequence[str]]) -> Iterator[list[bool]]:
        """Return whether each word of each caption is a noun."""
        for tags in self._tag(captions):
            yield [tag.is_noun for tag in tags]

    def nouns(self, captions: Iterable[Sequence[str]]) -> Iterator[list[str]]:
        """Return the nouns of each caption, in order."""
        captions, again = tee(captions)
        for words, flags in zip(captions, self.is_noun(again), strict=True):
            yield [word for word, flag in zip(words, flags, strict=True) if flag]

    def _tag(self, captions: Iterable[Sequence[str]]) -> Iterator[list[_WordTag]]:
        captions = iter(captions)
        while batch := list(islice(captions, _LOCK_BATCH)):
            with self._lock:
                tags = list(self._tag_batch(batch))
            yield from tags

    def _tag_batch(self, captions: Sequence[Sequence[str]]) -> Iterator[list[_WordTag]]:
        from spacy.tokens import Doc  # noqa: PLC0415

        documents = (Doc(self._pipeline.vocab, [_BRACKETS.get(word, word) for word in words]) for words in captions)
        # The attribute ruler, which maps fine-grained tags to parts of speech, takes half of the time. Without a parser
        # its result depends only on a word and its tag, so it is memoized.
        memo = self._memo
        for document in self._pipeline.pipe(documents, batch_size=_PIPE_BATCH, disable=["attribute_ruler"]):
            keys = [(token.lower, token.tag) for token in document]
            if not all(key in memo for key in keys):
                self._ruler(document)
                letters = [_LETTERS.get(token.pos_, "X") for token in document]
                # Symbols such as "%" are tagged as nouns.
                found = [
                    _WordTag(letter, letter == "N" and token.text[0].isalnum())
                    for letter, token in zip(letters, document, strict=True)
                ]
                memo.update(zip(keys, found, strict=True))
            yield [memo[key] for key in keys]


def shared_tagger() -> PosTagger:
    """Return the tagger of this process, loaded on the first call."""
    with _tagger_lock:
        return _load_tagger(find_spacy_model())


_tagger_lock = Lock()


@lru_cache(maxsize=1)
def _load_tagger(model: str) -> PosTagger:
    return PosTagger(model)


def majority_tags(captions: Iterable[tuple[Sequence[str], str]]) -> dict[str, str]:
    """Return the most frequent tag of each word in captions with their tags; ties go to the first in the alphabet.

    >>> majority_tags([(["an", "orange", "cat"], "DAN"), (["an", "orange"], "DN"), (["orange"], "N")])
    {'an': 'D', 'orange': 'N', 'cat': 'N'}
    """
    uses: dict[str, Counter[str]] = {}
    for words, tags in captions:
        for word, tag in zip(words, tags, strict=True):
            uses.setdefault(word, Counter())[tag] += 1
    return {word: min(counts, key=lambda tag: (-counts[tag], tag)) for word, counts in uses.items()}


def majority_nouns(captions: Iterable[Sequence[str]], tagger: PosTagger | None = None) -> frozenset[str]:
    """Return the words that are nouns in more than half of their occurrences; the order of captions does not matter."""
    uses: Counter[str] = Counter()
    as_noun: Counter[str] = Counter()
    captions, again = tee(captions)
    for words, flags in zip(captions, (tagger or PosTagger()).is_noun(again), strict=True):
        uses.update(words)
        as_noun.update(word for word, flag in zip(words, flags, strict=True) if flag)
    return frozenset(word for word, count in as_noun.items() if 2 * count > uses[word])
