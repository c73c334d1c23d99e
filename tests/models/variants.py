"""Model variants, modes and configs that tests are parametrised with."""

import pytest

from tests.factories import BASELINE_CONFIGS

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
BASELINES = list(BASELINE_CONFIGS)
