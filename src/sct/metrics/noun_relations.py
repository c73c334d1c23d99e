"""Synonyms and hypernyms of nouns, from WordNet; for evaluation only."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sct.language.inflection import base_forms

_FILE = Path(__file__).with_name("noun_relations.txt")


@dataclass(frozen=True, slots=True, eq=False)
class NounRelations:
    """Which nouns may stand for which; written by ``benchmarks/release/noun_relations.py``.

    >>> relations = load_relations()
    >>> pairs = ("people", "boy"), ("bikes", "bicycle"), ("dog", "cat"), ("boy", "person")
    >>> [relations.names(*pair) for pair in pairs]
    [True, True, False, False]
    """

    related: Mapping[str, Set[str]]
    """Synonyms and hypernyms of each singular noun."""

    def names(self, noun: str, human: str) -> bool:
        """Whether a noun names what a person called ``human``: the same noun, a synonym or a hypernym of it."""
        forms = set(base_forms(noun))
        return any(form in forms or not forms.isdisjoint(self.related.get(form, ())) for form in base_forms(human))


@lru_cache(maxsize=1)
def load_relations() -> NounRelations:
    """Read the table that ships with the package."""
    related = {}
    for line in _FILE.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            noun, _, names = line.partition(": ")
            related[noun] = frozenset(names.split())
    return NounRelations(related)
