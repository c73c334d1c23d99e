"""Tokens that the decoder of the transformer attends to, and their bias by distance from the pointer.

The tokens of an example are, in this order: for each region set its regions and, with ``null_token``, its null token;
then the image.
"""

from dataclasses import dataclass
from enum import IntEnum

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from sct.models.inputs import ControlBatch
from sct.models.modules import accumulate_dtype, masked_softmax


class TokenType(IntEnum):
    """Rows of the type embedding."""

    REGION = 0
    NULL = 1
    EMPTY = 2
    """Null token of a set without regions, such as the end slot."""
    IMAGE = 3


@dataclass(frozen=True, slots=True, eq=False)
class TokenLayout:
    """Masks of the tokens of a batch."""

    num_slots: Int[Tensor, " examples"]
    is_empty: Bool[Tensor, "examples slots"]
    """Sets without regions."""
    token_mask: Bool[Tensor, "examples tokens"]
    """Real tokens; the image always is one."""
    set_mask: Bool[Tensor, "examples slots set_tokens"]
    """Tokens of each set: its regions and, if it has one, its null token."""

    @property
    def num_sets(self) -> int:
        """Region sets of each example, padding included."""
        return self.set_mask.shape[1]

    @classmethod
    def build(cls, batch: ControlBatch, *, null_token: bool) -> "TokenLayout":
        """Layout of a batch that has its end slot."""
        is_set = torch.arange(batch.set_mask.shape[1], device=batch.num_slots.device) < batch.num_slots[:, None]
        set_mask = batch.set_mask & is_set[..., None]
        is_empty = ~set_mask.any(dim=-1)
        if null_token:
            set_mask = torch.cat([set_mask, is_set[..., None]], dim=-1)
        return cls(batch.num_slots, is_empty, functional.pad(set_mask.flatten(1), (0, 1), value=True), set_mask)


def slot_bias(
    table: Float[Tensor, "layers heads buckets"], num_sets: int
) -> Float[Tensor, "pointers layers heads slots_and_one"]:
    """Bias of each region set, then of the image, for each position of the pointer.

    Buckets of ``table`` are the distances from -m to m, beyond which they are clipped, then the image.
    """
    max_distance = (table.shape[-1] - 2) // 2
    slots = torch.arange(num_sets, device=table.device)
    distance = (slots - slots[:, None]).clamp(-max_distance, max_distance) + max_distance
    of_sets = table[..., distance.flatten()].unflatten(-1, distance.shape)
    of_image = table[..., -1:, None].expand(*table.shape[:-1], num_sets, 1)
    return torch.cat([of_sets, of_image], dim=-1).movedim(-2, 0)


def token_bias(
    bias: Float[Tensor, "batch queries heads slots_and_one"],
    token_mask: Bool[Tensor, "batch tokens"],
    set_tokens: int,
) -> Float[Tensor, "batch heads queries tokens"]:
    """Bias of every token from that of its set; minus infinity for padding."""
    sets = bias[..., :-1, None].expand(*bias.shape[:-1], -1, set_tokens).flatten(-2)
    tokens = torch.cat([sets, bias[..., -1:]], dim=-1).transpose(1, 2)
    return tokens.to(accumulate_dtype(bias.dtype)).masked_fill(~token_mask[:, None, None], -torch.inf)


def pointed_weights(
    log_weights: Float[Tensor, "rows heads tokens"],
    set_mask: Bool[Tensor, "rows slots set_tokens"],
    pointer: Int[Tensor, " rows"],
    *,
    null_token: bool,
) -> Float[Tensor, "rows members_and_sentinel"]:
    """Attention to the set under the pointer: its regions, then its null token, normalised to a sum of 1.

    Cross-attention also sees the other sets, whose weight the bias makes small; they are left out here.
    Without null tokens the sentinel's weight is 0, and so are all weights of an empty set.
    """
    num_rows, num_slots, set_tokens = set_mask.shape
    mean = torch.logsumexp(log_weights[..., :-1], dim=1).view(num_rows, num_slots, set_tokens)
    index = pointer[:, None, None].expand(-1, 1, set_tokens)
    weights = masked_softmax(mean.gather(1, index).squeeze(1), set_mask.gather(1, index).squeeze(1))
    return weights if null_token else functional.pad(weights, (0, 1))
