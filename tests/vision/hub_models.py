"""Small Hugging Face models with random weights, saved in local folders."""

import os

# Before Hugging Face packages are imported: tests never use the network.
os.environ["HF_HUB_OFFLINE"] = "1"

from pathlib import Path

import pytest
import torch

IMAGE_MEAN, IMAGE_STD = [0.5, 0.4, 0.3], [0.25, 0.2, 0.3]
NAMES = {0: "dog", 1: "red ball", 2: "N/A"}

transformers = pytest.importorskip("transformers", reason="transformers, of the extra hub, is not installed")
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


def _save(folder: Path, model, processor) -> Path:
    # Initial weights are so small that features hardly depend on the image.
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.2)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def save_backbone(folder: Path) -> Path:
    """DINOv2, which has a backbone class; its image processor crops to 60 pixels, four patches."""
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_ratio": 2}
    model = transformers.Dinov2Backbone(transformers.Dinov2Config(**sizes, image_size=56, patch_size=14))
    processor = transformers.BitImageProcessor(
        size={"shortest_edge": 64}, crop_size={"height": 60, "width": 60}, image_mean=IMAGE_MEAN, image_std=IMAGE_STD
    )
    return _save(folder, model, processor)


def save_encoder(folder: Path) -> Path:
    """ViT, which has no backbone class."""
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    model = transformers.ViTModel(transformers.ViTConfig(**sizes, image_size=32, patch_size=8))
    return _save(folder, model, transformers.ViTImageProcessor(size={"height": 32, "width": 32}))


def save_two_tower(folder: Path) -> Path:
    """CLIP, with a vision and a text tower."""
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.CLIPConfig(
        text_config={**sizes, "vocab_size": 20}, vision_config={**sizes, "image_size": 32, "patch_size": 8}
    )
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return _save(folder, transformers.CLIPModel(config), processor)


def save_convolutions(folder: Path) -> Path:
    """ConvNeXt, whose checkpoint lacks the norms that its backbone class adds."""
    config = transformers.ConvNextConfig(hidden_sizes=[8, 12, 16, 20], depths=[1, 1, 1, 1], image_size=64)
    return _save(
        folder, transformers.ConvNextModel(config), transformers.ConvNextImageProcessor(size={"shortest_edge": 64})
    )


def save_detector(folder: Path) -> Path:
    """YOLOS with seven detections."""
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.YolosConfig(
        **sizes, image_size=[64, 96], patch_size=16, num_detection_tokens=7, id2label=NAMES
    )
    processor = transformers.YolosImageProcessor(size={"shortest_edge": 64, "longest_edge": 96})
    return _save(folder, transformers.YolosForObjectDetection(config), processor)
