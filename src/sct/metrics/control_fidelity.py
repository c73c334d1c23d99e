"""Fidelity to a control: do chunks name their regions as people do, are all sets described, in order, and no more?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sct.language.head_noun import head_index
from sct.language.noun_table import NO_NOUN, NounTable
from sct.metrics.noun_alignment import GAP_SCORE, needleman_wunsch
from sct.metrics.noun_relations import NounRelations

PLACE_NOUNS = frozenset({
    "air", "back", "background", "bottom", "center", "couple", "day", "distance", "edge", "end", "foreground", "front",
    "group", "lot", "middle", "midair", "night", "pair", "part", "picture", "side", "top", "way",
})  # fmt: skip
"""Nouns of place, time and measure, which are no objects and so are never extra ones."""


@dataclass(frozen=True, slots=True)
class FidelityChunk:
    """Noun chunk of a caption and the position of its region set in the control."""

    words: tuple[str, ...]
    region_set: int


@dataclass(frozen=True, slots=True)
class FidelityCaption:
    """A caption, and how people name what it was asked to describe."""

    words: tuple[str, ...]
    chunks: tuple[FidelityChunk, ...]
    human_nouns: tuple[tuple[str, ...], ...]
    """Nouns with which people name each region set, in the order asked for; the first is that of the caption whose
    control it is."""
    image_nouns: frozenset[str]
    """Nouns of all human captions and classes of the image."""


@dataclass(frozen=True, slots=True)
class ControlFidelity:
    """Shares from 0 to 1, and NW from -1 to 1."""

    named: float
    """Share of chunks that name their region set as people do."""
    described: float
    """Share of region sets with a chunk that has a noun."""
    order: float
    """Noun alignment (NW) with the human nouns in the order asked for."""
    extra: float
    """Share of the nouns for objects that no person uses for anything in the image (CHAIR, Rohrbach et al. 2018)."""
    num_captions: int
    num_chunks: int


def chunk_noun(words: Sequence[str], table: NounTable) -> str | None:
    """Head noun of a chunk; None if it has no noun."""
    head = head_index(words, table)
    return words[head] if head is not None and words[head] in table else None


def names_region(noun: str | None, human_nouns: Sequence[str], relations: NounRelations) -> bool:
    """Whether a noun names a region set as one of the people does."""
    return noun is not None and any(relations.names(noun, human) for human in human_nouns)


def control_fidelity(
    captions: Sequence[FidelityCaption], table: NounTable, relations: NounRelations
) -> ControlFidelity:
    """Score captions against the human nouns of their region sets.

    >>> from sct.metrics.noun_relations import load_relations
    >>> table = NounTable.from_vectors(["man", "dog", "ball"], np.eye(3), "toy")
    >>> caption = FidelityCaption(
    ...     ("a", "man", "with", "a", "ball"),
    ...     (FidelityChunk(("a", "man"), 0), FidelityChunk(("a", "ball"), 1)),
    ...     (("boy", "man"), ("dog",)),
    ...     frozenset({"boy", "man", "dog"}),
    ... )
    >>> scores = control_fidelity([caption], table, load_relations())
    >>> scores.named, scores.described, scores.extra
    (0.5, 1.0, 0.5)
    """
    named: list[bool] = []
    described: list[bool] = []
    extra: list[bool] = []
    orders = []
    for caption in captions:
        nouns = [chunk_noun(chunk.words, table) for chunk in caption.chunks]
        named += [
            names_region(noun, caption.human_nouns[chunk.region_set], relations)
            for noun, chunk in zip(nouns, caption.chunks, strict=True)
        ]
        covered = {chunk.region_set for noun, chunk in zip(nouns, caption.chunks, strict=True) if noun is not None}
        described += [number in covered for number in range(len(caption.human_nouns))]
        objects = [word for word in caption.words if word in table and word not in PLACE_NOUNS]
        extra += [not names_region(word, sorted(caption.image_nouns), relations) for word in objects]
        orders.append(_align(caption, table))
    return ControlFidelity(
        named=_mean(named),
        described=_mean(described),
        order=_mean(orders),
        extra=_mean(extra),
        num_captions=len(captions),
        num_chunks=len(named),
    )


def _align(caption: FidelityCaption, table: NounTable) -> float:
    said = table.indices(caption.words)
    asked = table.indices([nouns[0] for nouns in caption.human_nouns if nouns])
    said, asked = said[said != NO_NOUN], asked[asked != NO_NOUN]
    if not len(said) or not len(asked):
        return 0.0 if len(said) == len(asked) else GAP_SCORE
    similarities = table.similarities(said[None], asked[None])[0]
    return float(needleman_wunsch(similarities[..., None])[0] / max(len(said), len(asked)))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0
