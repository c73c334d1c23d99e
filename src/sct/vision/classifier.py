"""Classes and words of region features: their probabilities, and the feature of a region of a known class."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from sct.vision.region_network import RegionEncoder

_MARGIN = 3.0
"""Logit of the given class over every other one in a feature that was moved to it: a probability of about 0.9."""
_MAX_STEPS = 50


class RegionClassifier:
    """Class and word head of a region encoder, applied to the features that the encoder outputs."""

    def __init__(self, network: RegionEncoder, class_names: tuple[str, ...], words: tuple[str, ...] = ()) -> None:
        """``words`` are those of the network's word head."""
        self.class_names, self.words = class_names, words
        self._network = network
        self._size = network.config.feature_size
        self.feature_size = network.config.output_size

    @torch.inference_mode()
    def probabilities(self, features: Float[Tensor, "regions features"]) -> Float[Tensor, "regions classes"]:
        """Probability of each class."""
        head = self._network.class_head
        logits: Tensor = head(features[:, : self._size].to(head.weight))
        return logits.softmax(-1).float()

    @torch.inference_mode()
    def word_probabilities(self, features: Float[Tensor, "regions features"]) -> Float[Tensor, "regions words"]:
        """Probability that people say each word of the region."""
        head = self._network.word_head
        logits: Tensor = head(features[:, : self._size].to(head.weight))
        return logits.sigmoid().float()

    @torch.inference_mode()
    def move_to_class(
        self, features: Float[Tensor, "regions features"], classes: Sequence[int]
    ) -> Float[Tensor, "regions features"]:
        """Change features as little as makes the class head name the given classes.

        Projections onto the half-spaces in which the class beats the strongest other one. An appended class embedding
        becomes that of the class.
        """
        head = self._network.class_head
        moved = features.to(head.weight).clone()
        visual = moved[:, : self._size]
        given = torch.tensor(classes, device=visual.device)
        rows = torch.arange(len(given), device=visual.device)
        for _ in range(_MAX_STEPS):
            logits = head(visual)
            others = logits.clone()
            others[rows, given] = -torch.inf
            strongest = others.argmax(-1)
            lacking = (_MARGIN - (logits[rows, given] - logits[rows, strongest])).clamp_min(0)
            if not lacking.any():
                break
            direction = head.weight[given] - head.weight[strongest]
            visual += direction * (lacking / direction.square().sum(-1).clamp_min(1e-6))[:, None]
        if self._network.config.class_embedding_size:
            moved[:, self._size :] = self._network.class_embeddings[given]
        return moved.to(features)
