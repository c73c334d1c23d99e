"""Small models with random weights, and control batches for them."""

from typing import Any

import pytest
import torch

from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch, collate_controls
from sct.models.interface import CaptionModel
from sct.models.registry import build_model, model_spec
from sct.models.show_control_tell import ShowControlTell, build_show_control_tell

VARIANTS = ["show_control_tell", "single_sentinel", "no_visual_sentinel"]
MODES = ["paper", "reference"]
ALL_CONFIGS = [
    pytest.param({"variant": variant, "mode": mode, **more}, id=f"{variant}-{mode}{name}")
    for variant in VARIANTS
    for mode in MODES
    for name, more in (
        ("", {}),
        ("-image in language LSTM", {"image_in_language_lstm": True}),
        *([("-end slot", {"end_slot": True})] if mode == "paper" else []),
    )
]
SIZES = {"vocabulary_size": 11, "feature_size": 6, "word_size": 5, "hidden_size": 8, "attention_size": 4}


def random_model(seed: int = 0, **config) -> ShowControlTell:
    """Biases are random too and weights twice their size, so that every term matters."""
    torch.manual_seed(seed)
    model = build_show_control_tell(CaptionerConfig(**(SIZES | config)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2).add_(torch.randn_like(parameter), alpha=0.3)
    return model.requires_grad_(False)


def random_controls(generator: torch.Generator, num_examples: int, num_rows: int) -> list[list[list[int]]]:
    """Controls of one to four sets of one to three regions."""

    def randint(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=generator))

    return [
        [[randint(0, num_rows - 1) for _ in range(randint(1, 3))] for _ in range(randint(1, 4))]
        for _ in range(num_examples)
    ]


def random_batch(seed: int = 0, num_examples: int = 3, num_rows: int = 7, features: int = 6) -> ControlBatch:
    generator = torch.Generator().manual_seed(seed)
    controls = random_controls(generator, num_examples, num_rows)
    regions = torch.randn(num_rows, features, generator=generator)
    return collate_controls(regions, torch.randn(num_examples, features, generator=generator), controls)


def random_actions(seed: int, num_rows: int, num_steps: int = 5, words: int = 11) -> tuple[torch.Tensor, torch.Tensor]:
    """Words and shifts to feed to a model, each (steps, rows)."""
    generator = torch.Generator().manual_seed(seed)
    shape = (num_steps, num_rows)
    return torch.randint(words, shape, generator=generator), torch.randint(2, shape, generator=generator)


# Baselines ----------------------------------------------------------------------------------------------------------

BASELINE_FEATURES, BASELINE_WORDS = 6, 9
_BASELINE_CONFIGS: dict[str, dict[str, Any]] = {
    "controllable_lstm": {},
    "controllable_up_down": {},
    "fc_2k": {},
    "up_down": {},
    "neural_baby_talk": {"slot_fillers": "4 5;6;;7 8 5"},
    "ag_cvae": {"num_classes": 4, "latent_size": 3},
    "pos": {"tag_of_word": "....DNVPD", "templates": "DNV DNVPDN N"},
}
BASELINES = list(_BASELINE_CONFIGS)
CONTROLS = [[[0, 1], [2]], [[3]], [[4, 5, 6], [0], [2, 1]]]


def random_baseline(variant: str, seed: int = 0, **config) -> CaptionModel:
    """Biases and buffers are random too, so that every term matters."""
    torch.manual_seed(seed)
    sizes = {"feature_size": BASELINE_FEATURES, "word_size": 5, "hidden_size": 8, "attention_size": 4}
    defaults = {"vocabulary_size": BASELINE_WORDS, "variant": variant, **sizes, **_BASELINE_CONFIGS[variant]}
    model = build_model(model_spec(variant).config(**(defaults | config)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2).add_(torch.randn_like(parameter), alpha=0.3)
        for buffer in model.buffers():
            buffer.normal_()
    return model


def batch_of_one_image(controls: list[list[list[int]]], seed: int = 0) -> ControlBatch:
    """Controls over seven regions of one image."""
    generator = torch.Generator().manual_seed(seed)
    regions = torch.randn(7, BASELINE_FEATURES, generator=generator)
    image = torch.randn(1, BASELINE_FEATURES, generator=generator)
    return collate_controls(regions, image.expand(len(controls), -1), controls)
