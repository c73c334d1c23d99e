"""A network that sees, small enough for tests."""

import torch

from sct.vision.encoder import RegionVisionEncoder
from sct.vision.region_network import RegionEncoder, RegionEncoderConfig
from sct.vision.vit import TransformerConfig

NAMES = ("dog", "man", "ball")


def tiny_network(seed: int = 1, *, name_vector_size: int = 0) -> RegionEncoder:
    torch.manual_seed(seed)
    config = RegionEncoderConfig(
        num_classes=len(NAMES),
        side=84,
        reduced=8,
        feature_size=16,
        name_vector_size=name_vector_size,
        transformer=TransformerConfig(width=24, heads=2, depth=2, grid=5),
    )
    return RegionEncoder(config)


def tiny_eye(seed: int = 1) -> RegionVisionEncoder:
    return RegionVisionEncoder(tiny_network(seed), NAMES)
