"""Carry groundings from a caption that people grounded to the other captions of the same image.

Where one caption says "a boy in a red cap" and its boxes are known, "the boy" of another caption is most likely that
boy too. Evidence is tried from strong to weak: the same entity by its noun and description, another noun for the same
kind of thing ("a kid"), a noun whose word vector is similar.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sct.language.noun_chunks import NounChunk
from sct.language.word_vectors import WordVectors

DETERMINERS = frozenset({"a", "an", "the", "this", "that", "his", "her", "its", "their", "some", "another"})
COLLECTIVES = frozenset({"audience", "band", "couple", "crowd", "family", "group", "pair", "team"})
"""Singular nouns that stand for several."""
TRANSFER_SIMILARITY = 0.8
"""Chosen on measured precision: docs/grounding.md."""


class Anchor(NamedTuple):
    """A mention whose regions are known."""

    chunk: NounChunk
    regions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Transfer:
    """Matches noun chunks with anchors of the same image.

    Number must agree: "a man" is not matched with the two boxes of "two men", while "two men" takes the boxes of all
    men that were mentioned one by one. Where two anchors fit a chunk equally well, it stays unassociated.
    """

    vectors: WordVectors
    kinds: Mapping[str, str] = field(default_factory=dict)
    """From a noun to its kind: nouns of one kind may name the same thing ("kid", "boy"), nouns of two never do."""
    min_similarity: float = TRANSFER_SIMILARITY
    """For nouns of no known kind."""

    def match(self, chunks: Sequence[NounChunk], anchors: Sequence[Anchor]) -> list[tuple[int, ...]]:
        """Regions of each chunk; empty where nothing fits."""
        exact = [self._by_noun(chunk, anchors) for chunk in chunks]
        claimed = {region for regions in exact for region in regions}
        free = [anchor for anchor in anchors if not claimed.issuperset(anchor.regions)]
        return [regions or self._by_likeness(chunk, free) for chunk, regions in zip(chunks, exact, strict=True)]

    def _by_noun(self, chunk: NounChunk, anchors: Sequence[Anchor]) -> tuple[int, ...]:
        same_noun = [anchor for anchor in anchors if anchor.chunk.base == chunk.base]
        if _is_several(chunk):
            return _all_of(same_noun)
        single = [anchor for anchor in same_noun if not _is_several(anchor.chunk)]
        described = _description(chunk)
        shared = [len(described & _description(anchor.chunk)) for anchor in single]
        best = [anchor for anchor, count in zip(single, shared, strict=True) if count == max(shared)]
        return best[0].regions if len(best) == 1 else ()

    def _by_likeness(self, chunk: NounChunk, anchors: Sequence[Anchor]) -> tuple[int, ...]:
        alike = [(likeness, anchor) for anchor in anchors if (likeness := self._likeness(chunk, anchor.chunk)) > 0]
        agreeing = [(value, anchor) for value, anchor in alike if _is_several(anchor.chunk) == _is_several(chunk)]
        if not agreeing and _is_several(chunk):
            return _all_of([anchor for _, anchor in alike])
        top = max((value for value, _ in agreeing), default=0.0)
        best = [anchor for value, anchor in agreeing if value == top]
        return best[0].regions if len(best) == 1 else ()

    def _likeness(self, chunk: NounChunk, other: NounChunk) -> float:
        """Similarity of two nouns that may name the same thing, else 0."""
        similarity = self.vectors.similarity(chunk.base, other.base) or 0.0
        kind, other_kind = self.kinds.get(chunk.base), self.kinds.get(other.base)
        if kind is not None and other_kind is not None:
            return max(similarity, 0.01) if kind == other_kind else 0.0
        return similarity if similarity >= self.min_similarity else 0.0


def _all_of(anchors: Sequence[Anchor]) -> tuple[int, ...]:
    """Regions of several; none where only one single thing was mentioned, for that is not all of them."""
    if len(anchors) == 1 and not _is_several(anchors[0].chunk):
        return ()
    return tuple(dict.fromkeys(region for anchor in anchors for region in anchor.regions))


def _is_several(chunk: NounChunk) -> bool:
    return chunk.plural or chunk.base in COLLECTIVES


def _description(chunk: NounChunk) -> set[str]:
    return set(chunk.modifiers) - DETERMINERS
