"""A region encoder that is small enough for tests."""

import torch

from sct.vision.encoder import RegionVisionEncoder
from sct.vision.region_network import RegionEncoder, RegionEncoderConfig
from sct.vision.vit import ViTConfig

CLASS_NAMES = ("dog", "man", "ball")


def tiny_network(seed: int = 1, *, class_embedding_size: int = 0) -> RegionEncoder:
    torch.manual_seed(seed)
    config = RegionEncoderConfig(
        num_classes=len(CLASS_NAMES),
        image_size=84,
        reduced_channels=8,
        feature_size=16,
        class_embedding_size=class_embedding_size,
        vit=ViTConfig(width=24, num_heads=2, depth=2, grid_size=5),
    )
    return RegionEncoder(config)


def tiny_encoder(seed: int = 1) -> RegionVisionEncoder:
    return RegionVisionEncoder(tiny_network(seed), CLASS_NAMES)
