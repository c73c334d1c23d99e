"""Small systems with random weights, and controls for them."""

from typing import Any

import torch

from sct.models.inputs import ControlBatch, collate_controls
from sct.models.interface import CaptionModel
from sct.models.registry import build_model, model_spec

FEATURES, WORDS = 6, 9
EXTRAS: dict[str, dict[str, Any]] = {
    "controllable_lstm": {},
    "controllable_up_down": {},
    "fc_2k": {},
    "up_down": {},
    "neural_baby_talk": {"forms": "4 5;6;;7 8 5"},
    "ag_cvae": {"num_classes": 4, "latent_size": 3},
    "pos": {"tag_of_word": "....DNVPD", "templates": "DNV DNVPDN N"},
}
SYSTEMS = list(EXTRAS)


def random_system(variant: str, seed: int = 0, **choices) -> CaptionModel:
    """Biases are random too, so that nothing can be left out without being noticed."""
    torch.manual_seed(seed)
    sizes = {"vocabulary_size": WORDS, "feature_size": FEATURES, "word_size": 5, "hidden_size": 8, "attention_size": 4}
    config = model_spec(variant).config(**(sizes | {"variant": variant} | EXTRAS[variant] | choices))
    system = build_model(config)
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.mul_(2).add_(torch.randn_like(parameter), alpha=0.3)
        for buffer in system.buffers():
            buffer.normal_()
    return system


def random_inputs(controls: list[list[list[int]]], seed: int = 0) -> ControlBatch:
    """Of controls over seven regions of one image."""
    generator = torch.Generator().manual_seed(seed)
    regions = torch.randn(7, FEATURES, generator=generator)
    return collate_controls(regions, torch.randn(1, FEATURES, generator=generator).expand(len(controls), -1), controls)


CONTROLS = [[[0, 1], [2]], [[3]], [[4, 5, 6], [0], [2, 1]]]
