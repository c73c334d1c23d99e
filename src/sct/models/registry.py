"""Registry of model variants; builds models from a config, or from a config and a state dict."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sct.errors import InputError
from sct.models.config import CaptionerConfig
from sct.models.interface import CaptionModel
from sct.models.show_control_tell import build_show_control_tell
from sct.storage.skip_init import SkipInit


class ModelSpec(NamedTuple):
    """Config class and constructor of a model variant."""

    config: type[CaptionerConfig]
    build: Callable[[Any], CaptionModel]


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
}
"""Loader of each variant's spec; baselines are imported on first use, which keeps captioning's start-up short."""


def model_spec(variant: str) -> ModelSpec:
    """Spec of a variant."""
    if variant not in MODELS:
        raise InputError(f"got variant {variant!r}, expected one of {', '.join(MODELS)}")
    return MODELS[variant]()


def build_model(config: CaptionerConfig) -> CaptionModel:
    """Model of a config, with freshly initialised weights."""
    spec = model_spec(config.variant)
    if type(config) is not spec.config:
        raise InputError(
            f"got a {type(config).__name__} for variant {config.variant!r}, expected a {spec.config.__name__}"
        )
    return spec.build(config)


Shapes = Mapping[str, tuple[int, ...]]
_FLOAT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def state_dict_shapes(config: CaptionerConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a model's weights."""
    return {name: tuple(weight.shape) for name, weight in _build_on_meta(config).state_dict().items()}


def build_from_state_dict(config: CaptionerConfig, weights: Mapping[str, Tensor]) -> CaptionModel:
    """Model with these weights in float32, in evaluation mode; call ``check_state_dict`` first."""
    model = _build_on_meta(config)
    model.load_state_dict({name: weight.float() for name, weight in weights.items()}, strict=True, assign=True)
    return model.eval()


def check_state_dict(weights: Mapping[str, object], expected: Shapes, source: object) -> None:
    """Raise if weights are missing, unexpected, of another shape or dtype, or not finite."""
    if missing := expected.keys() - weights.keys():
        raise InputError(f"{source} lacks {_name_weights(missing)}, expected {len(expected)} weights: get it again")
    if extra := weights.keys() - expected.keys():
        raise InputError(
            f"{source} has {_name_weights(extra)}, expected the {len(expected)} weights of such a model only: check "
            "that it is the right file"
        )
    for name, shape in expected.items():
        weight = weights[name]
        if not (isinstance(weight, Tensor) and weight.dtype in _FLOAT_DTYPES and weight.layout == torch.strided):
            kind = weight.dtype if isinstance(weight, Tensor) else type(weight).__name__
            raise InputError(f"the weight {name} of {source} is of type {kind}, expected a dense floating-point tensor")
        if tuple(weight.shape) != shape:
            raise InputError(
                f"the weight {name} of {source} has shape {tuple(weight.shape)}, expected {shape}: check that "
                "the files belong together"
            )
        if weight.is_meta or not _is_finite(weight):
            raise InputError(
                f"the weight {name} of {source} has values that are not finite: its training diverged, take an earlier "
                "checkpoint"
            )


def _is_finite(weight: Tensor) -> bool:
    """Whether all values are finite; checks the sum first, which is many times faster."""
    return bool(torch.isfinite(weight.sum(dtype=torch.float32))) or bool(torch.isfinite(weight).all())


def _build_on_meta(config: CaptionerConfig) -> CaptionModel:
    with torch.device("meta"), SkipInit():
        return build_model(config)


def _name_weights(names: Iterable[str]) -> str:
    first, *rest = sorted(names)
    return f"{first} and {len(rest)} more weights" if rest else f"the weight {first}"
