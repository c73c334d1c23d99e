"""Small captioners with random weights, and controls for them."""

import pytest
import torch

from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch, collate_controls
from sct.models.show_control_tell import ShowControlTell, build_show_control_tell

VARIANTS = ["ours", "single_sentinel", "no_visual_sentinel"]
MODES = ["paper", "reference"]
EVERY_ASSEMBLY = [
    pytest.param({"variant": variant, "mode": mode, **more}, id=f"{variant}-{mode}{name}")
    for variant in VARIANTS
    for mode in MODES
    for name, more in (
        ("", {}),
        ("-image in top layer", {"image_in_top_layer": True}),
        *([("-sees the end", {"end_slot": True})] if mode == "paper" else []),
    )
]
SIZES = {"vocabulary_size": 11, "feature_size": 6, "word_size": 5, "hidden_size": 8, "attention_size": 4}


def random_captioner(seed: int = 0, **choices) -> ShowControlTell:
    """Biases are random too and weights twice their size, so that nothing can be left out without being noticed."""
    torch.manual_seed(seed)
    captioner = build_show_control_tell(CaptionerConfig(**(SIZES | choices)))
    with torch.no_grad():
        for parameter in captioner.parameters():
            parameter.mul_(2).add_(torch.randn_like(parameter), alpha=0.3)
    return captioner.requires_grad_(False)


def random_controls(generator: torch.Generator, num_examples: int, num_rows: int) -> list[list[list[int]]]:
    """Of one to four sets of one to three regions."""

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=generator))

    return [
        [[number(0, num_rows - 1) for _ in range(number(1, 3))] for _ in range(number(1, 4))]
        for _ in range(num_examples)
    ]


def random_inputs(seed: int = 0, num_examples: int = 3, num_rows: int = 7, features: int = 6) -> ControlBatch:
    generator = torch.Generator().manual_seed(seed)
    controls = random_controls(generator, num_examples, num_rows)
    regions = torch.randn(num_rows, features, generator=generator)
    return collate_controls(regions, torch.randn(num_examples, features, generator=generator), controls)


def random_walk(seed: int, num_rows: int, num_steps: int = 5, words: int = 11) -> tuple[torch.Tensor, torch.Tensor]:
    """Words and shifts to feed to a captioner, each (steps, rows)."""
    generator = torch.Generator().manual_seed(seed)
    shape = (num_steps, num_rows)
    return torch.randint(words, shape, generator=generator), torch.randint(2, shape, generator=generator)
