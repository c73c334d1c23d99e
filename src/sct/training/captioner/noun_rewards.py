"""Rewards for the nouns of sampled captions: their order (NW), and whether region sets and images have them."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float, Int
from torch import Tensor

from sct.language.vocabulary import EOS
from sct.training.captioner.noun_references import NounReferences
from sct.training.captioner.objective_config import ObjectiveConfig
from sct.training.captioner.permuted_controls import ControlOrder
from sct.training.rewards import AlignmentReward, strip_special_tokens
from sct.training.rewards.alignment import NO_NOUN


@dataclass(frozen=True, slots=True, eq=False)
class NounRewards:
    """Rewards for the nouns of captions by name, weighted as in the recipe."""

    alignment: AlignmentReward
    names: Int[Tensor, " nouns"]
    """Of each noun id (``sct.training.captioner.noun_references.noun_names``)."""
    references: NounReferences
    config: ObjectiveConfig

    def to(self, device: torch.device | str) -> "NounRewards":
        """Copy to a device."""
        return NounRewards(self.alignment.to(device), self.names.to(device), self.references.to(device), self.config)

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
        names = self.names[self.alignment.noun_of_word[words]].masked_fill((words == EOS).cumsum(1) > 0, NO_NOUN)
        if config.named_set_weight:
            rewards["named_sets"] = config.named_set_weight * self._named_sets(names, slots, rows, order)
        if config.unsupported_noun_penalty:
            rewards["unsupported_nouns"] = -config.unsupported_noun_penalty * self._unsupported_nouns(names, rows)
        return rewards

    def _named_sets(
        self,
        names: Int[Tensor, "captions time"],
        slots: Int[Tensor, "captions time"],
        rows: Int[Tensor, " captions"],
        order: ControlOrder,
    ) -> Float[Tensor, " captions"]:
        """Share of the region sets asked for that the caption names as people do while the pointer is on them."""
        max_slots = order.sets.shape[1]
        human_names = self.references.set_names[rows]
        human_names = human_names.gather(1, order.sets[..., None].expand_as(human_names))
        slot = torch.arange(max_slots, device=rows.device)
        is_asked = (slot < order.num_slots[:, None]) & (human_names != NO_NOUN).any(2)
        at_words = F.pad(human_names, (0, 0, 0, 1), value=NO_NOUN).gather(
            1, slots.clamp(max=max_slots)[..., None].expand(-1, -1, human_names.shape[2])
        )
        is_name = ((names[..., None] == at_words) & (names != NO_NOUN)[..., None]).any(2)
        is_named = (is_name[..., None] & (slots[..., None] == slot)).any(1)
        return (is_named & is_asked).sum(1) / is_asked.sum(1).clamp(min=1)

    def _unsupported_nouns(
        self, names: Int[Tensor, "captions time"], rows: Int[Tensor, " captions"]
    ) -> Float[Tensor, " captions"]:
        """Nouns that no reference of the image has."""
        image_names = self.references.image_names[self.references.image[rows]]
        is_supported = (names[:, :, None] == image_names[:, None]).any(2)
        return ((names != NO_NOUN) & ~is_supported).sum(1).float()
