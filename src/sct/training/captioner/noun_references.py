"""What people call the region sets and images of training examples, for the rewards of nouns."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Int
from torch import Tensor

from sct.data.examples import Examples
from sct.data.index import region_of_member
from sct.data.table import NO_CHUNK, Table
from sct.language.inflection import base_forms
from sct.language.vocabulary import Vocabulary
from sct.metrics.control_fidelity import PLACE_NOUNS
from sct.training.captioner.permuted_controls import ControlOrder
from sct.training.rewards import AlignmentReferences, AlignmentReward, TokenSequences
from sct.training.rewards.alignment import NO_NOUN
from sct.training.rewards.token_sequences import compact

_MAX_NAMES = 6
"""Names of a region set; further ones are left out."""


@dataclass(frozen=True, slots=True, eq=False)
class NounReferences:
    """Nouns of the reference of each example in order, and what people call its region sets and the image.

    Names are noun ids without number: "dogs" has that of "dog".
    """

    alignment: AlignmentReferences
    sets: Int[Tensor, "examples nouns"]
    """Region set in whose chunk each noun is; the maximum number of sets for nouns in none."""
    set_names: Int[Tensor, "examples sets names"]
    """Names of each region set, in any caption of the image; then ``NO_NOUN``."""
    image: Int[Tensor, " examples"]
    image_names: Int[Tensor, "images image_names"]
    """Names of anything, in all references of an image; then ``NO_NOUN``."""

    def to(self, device: torch.device | str) -> "NounReferences":
        """Copy to a device."""
        alignment = AlignmentReferences(self.alignment.nouns.to(device), self.alignment.counts.to(device))
        tensors = (self.sets, self.set_names, self.image, self.image_names)
        return NounReferences(alignment, *(tensor.to(device) for tensor in tensors))

    def in_order(self, rows: Int[Tensor, " captions"], order: ControlOrder) -> AlignmentReferences:
        """Nouns of references in the order of a control: for permuted ones, those of the chunks that it asks for."""
        nouns, max_slots = self.alignment.nouns[rows], order.sets.shape[1]
        slot = F.pad(order.slots_of_sets(), (0, 1), value=max_slots).gather(1, self.sets[rows])
        slot = torch.where(order.is_permuted[:, None], slot, 0)  # the others keep all nouns where they are
        is_asked = (nouns != NO_NOUN) & (slot < max_slots)
        by_slot = slot.masked_fill(~is_asked, max_slots).argsort(dim=1, stable=True)
        return AlignmentReferences(nouns.masked_fill(~is_asked, NO_NOUN).gather(1, by_slot), is_asked.sum(1))


def prepare_noun_references(
    table: Table,
    examples: Examples,
    references: TokenSequences,
    alignment: AlignmentReward,
    names: Int[Tensor, " nouns"],
    max_slots: int,
) -> NounReferences:
    """Collect nouns once for all steps; ``names`` is the name of each noun id (``noun_names``)."""
    nouns = alignment.noun_ids(references)
    sets = torch.from_numpy(sets_of_words(table, examples, nouns.shape[1], max_slots))
    prepared = alignment.prepare(references)
    packed_sets = compact(sets, nouns != NO_NOUN).words[:, : prepared.nouns.shape[1]]
    image = torch.from_numpy(examples.image).long()
    return NounReferences(
        prepared,
        packed_sets,
        _set_names(table, examples, names[nouns].numpy(), sets.numpy(), max_slots),
        image,
        _distinct(names[nouns], image),
    )


def noun_names(alignment: AlignmentReward, vocabulary: Vocabulary) -> Int[Tensor, " nouns"]:
    """Name of each noun id: that of its singular, if it is a noun; ``NO_NOUN`` for nouns of place ("front")."""
    words = {int(noun): vocabulary.words[word] for word, noun in enumerate(alignment.noun_of_word.tolist()) if noun}
    ids = {word: noun for noun, word in words.items()}
    names = torch.full((len(alignment.vectors),), NO_NOUN)
    for noun, word in words.items():
        singulars = [ids[form] for form in base_forms(word)[1:] if form in ids]
        names[noun] = NO_NOUN if word in PLACE_NOUNS else (singulars or [noun])[0]
    return names


def sets_of_words(
    table: Table, examples: Examples, num_words: int, max_slots: int
) -> Int[np.ndarray, "examples words"]:
    """Region set in whose chunk each of the first words of a reference is; ``max_slots`` for words in none.

    Words between chunks, after the last one, and where the example is truncated are in none.
    """
    offsets = table.columns["word_offsets"].astype(np.int64)
    steps = np.arange(num_words)
    is_word = steps < np.minimum(np.diff(offsets)[examples.caption], examples.num_words)[:, None]
    rows = np.where(is_word, offsets[examples.caption][:, None] + steps, 0)
    chunks = np.where(is_word, table.columns["word_chunk"][rows], NO_CHUNK).astype(np.int64)
    slots = np.full(chunks.shape, max_slots)
    kept = min(num_words, examples.slots.shape[1])
    slots[:, :kept] = examples.slots[:, :kept]
    sets = np.full(chunks.shape, max_slots)
    for region_set in range(max_slots):
        # Chunks of region sets beyond the maximum are on the last one: the first chunk is its own.
        is_candidate = (chunks != NO_CHUNK) & (slots == region_set)
        first = chunks[np.arange(len(chunks)), is_candidate.argmax(1)]
        sets[is_candidate & (chunks == first[:, None])] = region_set
    return sets


def _set_names(
    table: Table,
    examples: Examples,
    names: Int[np.ndarray, "examples words"],
    sets: Int[np.ndarray, "examples words"],
    max_slots: int,
) -> Int[Tensor, "examples sets names"]:
    """Last nouns of the chunks about each region set, in all examples that have the same one.

    Sets that stand in for a chunk without a region have no name: their regions do not show it.
    """
    num_chunk_members = len(region_of_member(table))
    last: dict[tuple[int, int], int] = {}
    for example, word in np.argwhere((names != NO_NOUN) & (sets < max_slots)).tolist():
        last[example, int(sets[example, word])] = int(names[example, word])
    own: dict[tuple[int, int], tuple[int, ...]] = {}
    others: dict[tuple[int, ...], dict[int, None]] = defaultdict(dict)
    for (example, region_set), name in last.items():
        start, size = int(examples.set_starts[example, region_set]), int(examples.set_sizes[example, region_set])
        if start < num_chunk_members:
            regions = own[example, region_set] = tuple(sorted(examples.members[start : start + size].tolist()))
            others[regions][name] = None
    found = np.full((len(examples), max_slots, _MAX_NAMES), NO_NOUN, np.int32)
    for key, regions in own.items():
        distinct = list(dict.fromkeys((last[key], *others[regions])))[:_MAX_NAMES]
        found[(*key, slice(len(distinct)))] = distinct
    return torch.from_numpy(found)


def _distinct(
    names: Int[Tensor, "examples words"], image: Int[Tensor, " examples"]
) -> Int[Tensor, "images image_names"]:
    """Distinct names of each image, then ``NO_NOUN``."""
    example, word = (names != NO_NOUN).nonzero(as_tuple=True)
    pairs = torch.stack([image[example], names[example, word]], dim=1).unique(dim=0)
    counts = torch.bincount(pairs[:, 0], minlength=int(image.max()) + 1)
    first = (counts.cumsum(0) - counts)[pairs[:, 0]]
    table = torch.full((len(counts), max(1, int(counts.max()))), NO_NOUN)
    table[pairs[:, 0], torch.arange(len(pairs)) - first] = pairs[:, 1]
    return table
