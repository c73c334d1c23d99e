"""Names that people give to regions and words that they ask for, as word ids; unknown words are refused with hints."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from sct.errors import InputError
from sct.language.inflection import inflections, is_plural
from sct.language.noun_table import NounTable
from sct.language.tokenizer import tokenize
from sct.language.vocabulary import SPECIAL_TOKENS, Vocabulary

MAX_NAME_WORDS = 4
_ARTICLES = frozenset({"a", "an", "the"})
_NUM_HINTS = 4
_MIN_SIMILARITY = 0.5
"""Cosine from which a word's meaning is close enough to be offered."""


@dataclass(frozen=True, slots=True)
class RegionName:
    """What the noun chunk of a region set must say: modifiers, then one of the heads."""

    modifiers: tuple[str, ...]
    heads: tuple[str, ...]
    """Inflections of the last word that agree with the number of regions; at least one."""


def parse_name(name: str, num_regions: int, vocabulary: Vocabulary, nouns: NounTable | None) -> RegionName:
    """Split a name into words of the vocabulary; a leading article is dropped.

    One region keeps the number of the name; several allow singular and plural.
    """
    words = tokenize(name)
    if len(words) > 1 and words[0] in _ARTICLES:
        words = words[1:]
    if not 0 < len(words) <= MAX_NAME_WORDS:
        raise InputError(f"got the name {name!r}, expected 1 to {MAX_NAME_WORDS} words, such as horse or white horse")
    *modifiers, head = words
    check_words(modifiers, vocabulary, nouns)
    forms = inflections(head, vocabulary.ids)
    if not forms:
        check_words([head], vocabulary, nouns)
    if num_regions == 1:
        forms = tuple(form for form in forms if is_plural(form) == is_plural(head)) or forms
    return RegionName(tuple(modifiers), forms)


def check_words(words: Sequence[str], vocabulary: Vocabulary, nouns: NounTable | None) -> None:
    """Raise if a word is not in the vocabulary, offering the nearest ones."""
    for word in words:
        if word in vocabulary.ids:
            continue
        found = nearest_words(word, vocabulary, nouns)
        hint = f": did you mean {', '.join(found)}?" if found else ""
        raise InputError(f"word {word!r} is not among the {len(vocabulary)} words of the vocabulary{hint}")


def nearest_words(word: str, vocabulary: Vocabulary, nouns: NounTable | None) -> tuple[str, ...]:
    """Words of the vocabulary that are nearest in meaning, by word vectors, and in spelling."""
    ordinary = [each for each in vocabulary.words if each not in SPECIAL_TOKENS]
    similar: list[str] = []
    if nouns is not None and (forms := inflections(word, nouns)):
        own = nouns.units[nouns.indices([forms[0]])[0]]
        known = [each for each in ordinary if each in nouns]
        cosines = nouns.units[nouns.indices(known)] @ own
        best = np.argsort(-cosines)[:_NUM_HINTS]
        similar = [known[row] for row in best if cosines[row] >= _MIN_SIMILARITY]
    spelled = get_close_matches(word.lower(), ordinary, n=2, cutoff=0.6)
    return tuple(dict.fromkeys([*similar, *spelled]))[:_NUM_HINTS]
