"""Transfer of groundings from human-grounded captions to the other captions of the same image.

If one caption has boxes for "a boy in a red cap", "the boy" of another one most likely refers to them too. Evidence is
tried from strong to weak: the same noun and description, another noun of the same class ("a kid"), a noun with a
similar word vector.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sct.language.noun_chunks import NounChunk
from sct.language.word_vectors import WordVectors

DETERMINERS = frozenset({"a", "an", "the", "this", "that", "his", "her", "its", "their", "some", "another"})
COLLECTIVES = frozenset({"audience", "band", "couple", "crowd", "family", "group", "pair", "team"})
"""Singular nouns that denote several objects."""
TRANSFER_SIMILARITY = 0.8
"""Chosen by measured precision: docs/grounding.md."""


class Anchor(NamedTuple):
    """A chunk whose regions are known."""

    chunk: NounChunk
    regions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Transfer:
    """Matches noun chunks with anchors of the same image.

    Grammatical number must agree: "a man" does not match the two boxes of "two men", while "two men" takes the boxes
    of all men that were mentioned individually. A chunk that matches two anchors equally well stays unassociated.
    """

    vectors: WordVectors
    class_of_noun: Mapping[str, str] = field(default_factory=dict)
    """Nouns of the same class may refer to the same object ("kid", "boy"), nouns of different classes never do."""
    min_similarity: float = TRANSFER_SIMILARITY
    """For nouns without a class."""

    def match(self, chunks: Sequence[NounChunk], anchors: Sequence[Anchor]) -> list[tuple[int, ...]]:
        """Return the regions of each chunk; empty without a match."""
        exact = [self._match_noun(chunk, anchors) for chunk in chunks]
        matched = {region for regions in exact for region in regions}
        free = [anchor for anchor in anchors if not matched.issuperset(anchor.regions)]
        return [regions or self._match_similar(chunk, free) for chunk, regions in zip(chunks, exact, strict=True)]

    def _match_noun(self, chunk: NounChunk, anchors: Sequence[Anchor]) -> tuple[int, ...]:
        same_noun = [anchor for anchor in anchors if anchor.chunk.lemma == chunk.lemma]
        if is_several(chunk):
            return _union(same_noun)
        single = [anchor for anchor in same_noun if not is_several(anchor.chunk)]
        description = _description(chunk)
        shared = [len(description & _description(anchor.chunk)) for anchor in single]
        best = [anchor for anchor, count in zip(single, shared, strict=True) if count == max(shared)]
        return best[0].regions if len(best) == 1 else ()

    def _match_similar(self, chunk: NounChunk, anchors: Sequence[Anchor]) -> tuple[int, ...]:
        similar = [
            (similarity, anchor) for anchor in anchors if (similarity := self._similarity(chunk, anchor.chunk)) > 0
        ]
        agreeing = [(value, anchor) for value, anchor in similar if is_several(anchor.chunk) == is_several(chunk)]
        if not agreeing and is_several(chunk):
            return _union([anchor for _, anchor in similar])
        top = max((value for value, _ in agreeing), default=0.0)
        best = [anchor for value, anchor in agreeing if value == top]
        return best[0].regions if len(best) == 1 else ()

    def _similarity(self, chunk: NounChunk, other: NounChunk) -> float:
        """Return the similarity of two nouns that may refer to the same object, else 0."""
        similarity = self.vectors.similarity(chunk.lemma, other.lemma) or 0.0
        class_name, other_class = self.class_of_noun.get(chunk.lemma), self.class_of_noun.get(other.lemma)
        if class_name is not None and other_class is not None:
            return max(similarity, 0.01) if class_name == other_class else 0.0
        return similarity if similarity >= self.min_similarity else 0.0


def _union(anchors: Sequence[Anchor]) -> tuple[int, ...]:
    """Return the regions of all anchors; none for one singular anchor, which cannot be all of several objects."""
    if len(anchors) == 1 and not is_several(anchors[0].chunk):
        return ()
    return tuple(dict.fromkeys(region for anchor in anchors for region in anchor.regions))


def is_several(chunk: NounChunk) -> bool:
    """Whether a chunk denotes several objects."""
    return chunk.is_plural or chunk.lemma in COLLECTIVES


def _description(chunk: NounChunk) -> set[str]:
    return set(chunk.modifiers) - DETERMINERS
