"""A network that sees, small enough for tests."""

import torch

from sct.regions.sight import Eye, SightConfig, SightNetwork, TransformerConfig

NAMES = ("dog", "man", "ball")


def tiny_network(seed: int = 1, *, name_vector_size: int = 0) -> SightNetwork:
    torch.manual_seed(seed)
    config = SightConfig(
        num_names=len(NAMES),
        side=84,
        reduced=8,
        feature_size=16,
        name_vector_size=name_vector_size,
        transformer=TransformerConfig(width=24, heads=2, depth=2, grid=5),
    )
    return SightNetwork(config)


def tiny_eye(seed: int = 1) -> Eye:
    return Eye(tiny_network(seed), NAMES)
