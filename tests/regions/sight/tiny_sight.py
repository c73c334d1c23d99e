"""A network that sees, small enough for tests."""

import torch

from sct.regions.sight import Eye, SightConfig, SightNetwork, TransformerConfig

NAMES = ("dog", "man", "ball")


def tiny_network(seed: int = 1) -> SightNetwork:
    torch.manual_seed(seed)
    transformer = TransformerConfig(width=24, heads=2, depth=2, grid=5)
    return SightNetwork(SightConfig(num_names=len(NAMES), side=84, reduced=8, feature_size=16, transformer=transformer))


def tiny_eye(seed: int = 1) -> Eye:
    return Eye(tiny_network(seed), NAMES)
