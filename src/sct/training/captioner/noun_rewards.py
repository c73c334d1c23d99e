"""Rewards for the nouns of sampled captions: their order (NW), and whether region sets and images have them."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float, Int
from torch import Tensor

from sct.language.vocabulary import EOS
from sct.training.captioner.objective_config import ObjectiveConfig
from sct.training.captioner.permuted_controls import ControlOrder
from sct.training.rewards import AlignmentReferences, AlignmentReward, TokenSequences, strip_special_tokens
from sct.training.rewards.alignment import NO_NOUN
from sct.training.rewards.ngrams import CHUNK
from sct.training.rewards.token_sequences import compact


@dataclass(frozen=True, slots=True, eq=False)
class NounReferences:
    """Nouns of the reference of each example, with the region sets that they are about, and nouns of images."""

    alignment: AlignmentReferences
    sets: Int[Tensor, "examples nouns"]
    """Region set that each noun is about; one that the example does not have for nouns after the last."""
    set_nouns: Int[Tensor, "examples sets"]
    """Last noun about each region set, which is the head of its chunk; ``NO_NOUN`` if there is none."""
    image: Int[Tensor, " examples"]
    image_nouns: Int[Tensor, "images distinct_nouns"]
    """Distinct nouns of all references of an image, then ``NO_NOUN``."""

    @classmethod
    def prepare(
        cls,
        alignment: AlignmentReward,
        references: TokenSequences,
        slots: Int[Tensor, "examples steps"],
        max_slots: int,
        image: Int[Tensor, " examples"],
    ) -> "NounReferences":
        """Prepare once for all steps; ``slots`` are pointer positions at the words of the references.

        Words beyond ``slots``, where examples are truncated, are about no region set.
        """
        nouns = alignment.noun_ids(references)
        num_words = nouns.shape[1]
        sets = F.pad(slots[:, :num_words], (0, max(0, num_words - slots.shape[1])), value=max_slots)
        prepared = alignment.prepare(references)
        packed = compact(sets, nouns != NO_NOUN).words[:, : prepared.nouns.shape[1]]
        return cls(prepared, packed, last_nouns(nouns, sets, max_slots), image, _distinct_nouns(nouns, image))

    def in_order(self, rows: Int[Tensor, " captions"], order: ControlOrder) -> AlignmentReferences:
        """Nouns of references in the order of a control, without those of region sets that it leaves out.

        Permuted controls do not ask for the nouns after the last region set either.
        """
        nouns, max_slots = self.alignment.nouns[rows], order.sets.shape[1]
        slot = F.pad(order.slots_of_sets(), (0, 1), value=max_slots).gather(1, self.sets[rows])
        slot = torch.where(order.is_permuted[:, None], slot, 0)
        is_kept = (nouns != NO_NOUN) & (slot < max_slots)
        by_slot = slot.masked_fill(~is_kept, max_slots).argsort(dim=1, stable=True)
        return AlignmentReferences(nouns.masked_fill(~is_kept, NO_NOUN).gather(1, by_slot), is_kept.sum(1))


@dataclass(frozen=True, slots=True, eq=False)
class NounRewards:
    """Rewards for the nouns of captions by name, weighted as in the recipe."""

    alignment: AlignmentReward
    references: NounReferences
    config: ObjectiveConfig

    def __call__(
        self,
        words: Int[Tensor, "captions time"],
        slots: Int[Tensor, "captions time"],
        rows: Int[Tensor, " captions"],
        order: ControlOrder,
    ) -> dict[str, Float[Tensor, " captions"]]:
        """Rewards of captions of some examples, said with the pointer on ``slots`` under the control of ``order``."""
        config = self.config
        captions = strip_special_tokens(words, collapse=config.collapse_repeats)
        one_each = torch.arange(len(rows), device=rows.device)[:, None]
        nw = self.alignment(captions, self.references.in_order(rows, order), one_each, from_zero=True)
        rewards = {"nw": config.noun_weight * nw}
        said = self.alignment.noun_of_word[words].masked_fill((words == EOS).cumsum(1) > 0, NO_NOUN)
        if config.named_set_weight:
            rewards["named_sets"] = config.named_set_weight * self._named_sets(said, slots, rows, order)
        if config.unsupported_noun_penalty:
            rewards["unsupported_nouns"] = -config.unsupported_noun_penalty * self._unsupported_nouns(said, rows)
        return rewards

    def _named_sets(
        self,
        said: Int[Tensor, "captions time"],
        slots: Int[Tensor, "captions time"],
        rows: Int[Tensor, " captions"],
        order: ControlOrder,
    ) -> Float[Tensor, " captions"]:
        """Mean over region sets of the cosine of the last nouns about them in the caption and in the reference."""
        expected = self.references.set_nouns[rows].gather(1, order.sets)
        found = last_nouns(said, slots, order.sets.shape[1])
        is_asked = (torch.arange(expected.shape[1], device=rows.device) < order.num_slots[:, None]) & (
            expected != NO_NOUN
        )
        named = self.alignment.cosines(found, expected).clamp(min=0)
        return (named * is_asked).sum(1) / is_asked.sum(1).clamp(min=1)

    def _unsupported_nouns(
        self, said: Int[Tensor, "captions time"], rows: Int[Tensor, " captions"]
    ) -> Float[Tensor, " captions"]:
        """Sum over nouns of one minus the highest cosine with a noun of the image's references."""
        supported = self.references.image_nouns[self.references.image[rows]]
        best = self.alignment.cosines(said[:, :, None], supported[:, None]).amax(2).clamp(min=0)
        return ((1 - best) * (said != NO_NOUN)).sum(1)


def last_nouns(
    nouns: Int[Tensor, "captions time"], slots: Int[Tensor, "captions time"], num_slots: int
) -> Int[Tensor, "captions slots"]:
    """Last noun at each slot, ``NO_NOUN`` where there is none.

    >>> last_nouns(torch.tensor([[7, 0, 8, 9, 0]]), torch.tensor([[0, 0, 0, 2, 2]]), 3).tolist()
    [[8, 0, 9]]
    """
    found = []
    position = torch.arange(1, nouns.shape[1] + 1, device=nouns.device)
    slot = torch.arange(num_slots, device=nouns.device)
    for some, of_slots in zip(nouns.split(CHUNK), slots.split(CHUNK), strict=True):
        is_at_slot = (of_slots[:, :, None] == slot) & (some != NO_NOUN)[:, :, None]
        last = (is_at_slot * position[:, None]).amax(1)
        found.append(F.pad(some, (1, 0), value=NO_NOUN).gather(1, last))
    return torch.cat(found)


def _distinct_nouns(
    nouns: Int[Tensor, "examples time"], image: Int[Tensor, " examples"]
) -> Int[Tensor, "images distinct_nouns"]:
    """Distinct nouns of each image, then ``NO_NOUN``."""
    example, time = (nouns != NO_NOUN).nonzero(as_tuple=True)
    pairs = torch.stack([image[example], nouns[example, time]], dim=1).unique(dim=0)
    counts = torch.bincount(pairs[:, 0], minlength=int(image.max()) + 1)
    first = (counts.cumsum(0) - counts)[pairs[:, 0]]
    table = nouns.new_full((len(counts), max(1, int(counts.max()))), NO_NOUN)
    table[pairs[:, 0], torch.arange(len(pairs), device=nouns.device) - first] = pairs[:, 1]
    return table
