"""Registry of model variants; builds models from a config, or from a config and a state dict."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sct.errors import InputError
from sct.models.config import CaptionerConfig
from sct.models.interface import CaptionModel
from sct.models.show_control_tell import build_show_control_tell
from sct.storage.skip_init import SkipInit
from sct.storage.state_dict import check_num_weights


class ModelSpec(NamedTuple):
    """Config class and constructor of a model variant."""

    config: type[CaptionerConfig]
    build: Callable[[Any], CaptionModel]


def _transformer() -> ModelSpec:
    from sct.models.transformer.config import TransformerConfig  # noqa: PLC0415
    from sct.models.transformer.model import TransformerCaptioner  # noqa: PLC0415

    return ModelSpec(TransformerConfig, TransformerCaptioner)


def _baseline(module: str, model: str, config: str | None = None) -> Callable[[], ModelSpec]:
    def load() -> ModelSpec:
        found = import_module(f"sct.models.baselines.{module}")
        return ModelSpec(getattr(found, config) if config else CaptionerConfig, getattr(found, model))

    return load


def _show_control_tell() -> ModelSpec:
    return ModelSpec(CaptionerConfig, build_show_control_tell)


MODELS: dict[str, Callable[[], ModelSpec]] = {
    "show_control_tell": _show_control_tell,
    "single_sentinel": _show_control_tell,
    "no_visual_sentinel": _show_control_tell,
    "controllable_lstm": _baseline("controllable_lstm", "ControllableLSTM"),
    "controllable_up_down": _baseline("up_down", "UpDown"),
    "fc_2k": _baseline("fc_2k", "FC2K"),
    "up_down": _baseline("up_down", "UpDown"),
    "neural_baby_talk": _baseline("neural_baby_talk", "NeuralBabyTalk", "NeuralBabyTalkConfig"),
    "ag_cvae": _baseline("ag_cvae", "AGCVAE", "AGCVAEConfig"),
    "pos": _baseline("pos", "POSCaptioner", "POSConfig"),
    "transformer": _transformer,
}
"""Loader of each variant's spec; other models than the paper's are imported on first use: captioning starts faster."""


def model_spec(variant: str) -> ModelSpec:
    """Spec of a variant."""
    if variant not in MODELS:
        raise InputError(f"got variant {variant!r}, expected one of {', '.join(MODELS)}")
    return MODELS[variant]()


def build_model(config: CaptionerConfig) -> CaptionModel:
    """Model of a config, with freshly initialised weights."""
    check_num_weights(state_dict_shapes(config).values(), "the model")
    return _build(config)


def _build(config: CaptionerConfig) -> CaptionModel:
    spec = model_spec(config.variant)
    if type(config) is not spec.config:
        raise InputError(
            f"got a {type(config).__name__} for variant {config.variant!r}, expected a {spec.config.__name__}"
        )
    return spec.build(config)


def state_dict_shapes(config: CaptionerConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a model's weights."""
    return {name: tuple(weight.shape) for name, weight in _build_on_meta(config).state_dict().items()}


def build_from_state_dict(config: CaptionerConfig, weights: Mapping[str, Tensor]) -> CaptionModel:
    """Model with these weights in float32, in evaluation mode; they must have passed ``check_state_dict``."""
    model = _build_on_meta(config)
    model.load_state_dict({name: weight.float() for name, weight in weights.items()}, strict=True, assign=True)
    return model.eval()


def _build_on_meta(config: CaptionerConfig) -> CaptionModel:
    with torch.device("meta"), SkipInit():
        return _build(config)
