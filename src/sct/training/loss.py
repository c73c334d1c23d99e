"""A loss with its named terms, and the masked mean that losses are made of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

MaskedMean = Callable[[Tensor, Tensor], Tensor]
"""Mean of the unmasked values; in distributed training, of those of the global batch."""


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """Total loss and its terms."""

    total: Float[Tensor, ""]
    terms: Mapping[str, Float[Tensor, ""]] = field(default_factory=dict)
    """Losses and rewards by name, detached, for logging."""


def masked_mean(values: Float[Tensor, "*shape"], mask: Bool[Tensor, "*shape"]) -> Float[Tensor, ""]:
    """Mean of the values where ``mask`` is True, 0 if it nowhere is; does not synchronise with the device."""
    return torch.where(mask, values, 0.0).sum() / mask.sum().clamp(min=1)
