"""Registry of model variants: from a config, or a config and a state dict, to a model."""

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
    "ours": _show_control_tell,
    "single_sentinel": _show_control_tell,
    "no_visual_sentinel": _show_control_tell,
    "controllable_lstm": _baseline("controllable_lstm", "ControllableLstm"),
    "controllable_up_down": _baseline("up_down", "UpDown"),
    "fc_2k": _baseline("fc_2k", "Fc2k"),
    "up_down": _baseline("up_down", "UpDown"),
    "neural_baby_talk": _baseline("neural_baby_talk", "BabyTalk", "BabyTalkConfig"),
    "ag_cvae": _baseline("ag_cvae", "AgCvae", "AgCvaeConfig"),
    "pos": _baseline("pos", "PosCaptioner", "PosConfig"),
}
"""Loader of each variant's spec; baselines are imported on first use, so that captioning does not wait for them."""


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
    """Names and shapes of all weights of such a captioner."""
    return {name: tuple(weight.shape) for name, weight in _on_meta(config).state_dict().items()}


def build_from_state_dict(config: CaptionerConfig, weights: Mapping[str, Tensor]) -> CaptionModel:
    """The captioner with these weights, in float32 and ready to caption; they must have passed ``check_state_dict``."""
    captioner = _on_meta(config)
    captioner.load_state_dict({name: weight.float() for name, weight in weights.items()}, strict=True, assign=True)
    return captioner.eval()


def check_state_dict(weights: Mapping[str, object], expected: Shapes, source: object) -> None:
    """Refuse weights that are too few, too many, of the wrong shape, or no finite numbers."""
    if missing := expected.keys() - weights.keys():
        raise InputError(
            f"{source} lacks {_named(missing)}: expected all {len(expected)} weights of such a captioner; get it again"
        )
    if extra := weights.keys() - expected.keys():
        raise InputError(
            f"{source} has {_named(extra)}, which no such captioner has: expected {len(expected)} weights and no more; "
            "check that it is the right file"
        )
    for name, shape in expected.items():
        weight = weights[name]
        if not (isinstance(weight, Tensor) and weight.dtype in _FLOAT_DTYPES and weight.layout == torch.strided):
            kind = weight.dtype if isinstance(weight, Tensor) else type(weight).__name__
            raise InputError(
                f"the weight {name} of {source} is of kind {kind}: expected a dense tensor of real numbers"
            )
        if tuple(weight.shape) != shape:
            raise InputError(
                f"the weight {name} of {source} has shape {tuple(weight.shape)}: expected {shape}, to fit the others; "
                "check that all files belong together"
            )
        if weight.is_meta or not _is_finite(weight):
            raise InputError(
                f"the weight {name} of {source} holds values that are not finite (NaN, infinity, or none at all): "
                "expected numbers; its training went wrong, take an earlier checkpoint"
            )


def _is_finite(weight: Tensor) -> bool:
    """Whether all values are; what is not shows in their sum, which is many times faster to find than each of them."""
    return bool(torch.isfinite(weight.sum(dtype=torch.float32))) or bool(torch.isfinite(weight).all())


def _on_meta(config: CaptionerConfig) -> CaptionModel:
    with torch.device("meta"), SkipInit():
        return build_model(config)


def _named(names: Iterable[str]) -> str:
    first, *rest = sorted(names)
    return f"{first} and {len(rest)} more weights" if rest else f"the weight {first}"
