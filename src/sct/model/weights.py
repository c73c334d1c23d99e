"""From named tensors to a captioner, checked one by one."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from sct.errors import InputError
from sct.model.config import CaptionerConfig
from sct.model.system import CaptioningSystem
from sct.model.systems import make_system
from sct.undrawn import Undrawn

Shapes = Mapping[str, tuple[int, ...]]
_KINDS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def weight_shapes(config: CaptionerConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all weights of such a captioner."""
    return {name: tuple(weight.shape) for name, weight in _without_memory(config).state_dict().items()}


def captioner_of(config: CaptionerConfig, weights: Mapping[str, Tensor]) -> CaptioningSystem:
    """The captioner with these weights, in float32 and ready to caption; they must have passed ``check_weights``."""
    captioner = _without_memory(config)
    captioner.load_state_dict({name: weight.float() for name, weight in weights.items()}, strict=True, assign=True)
    return captioner.eval()


def check_weights(weights: Mapping[str, object], wanted: Shapes, source: object) -> None:
    """Refuse weights that are too few, too many, of the wrong shape, or no finite numbers."""
    if missing := wanted.keys() - weights.keys():
        raise InputError(
            f"{source} lacks {_named(missing)}: wanted all {len(wanted)} weights of such a captioner; get it again"
        )
    if extra := weights.keys() - wanted.keys():
        raise InputError(
            f"{source} has {_named(extra)}, which no such captioner has: wanted {len(wanted)} weights and no more; "
            "check that it is the right file"
        )
    for name, shape in wanted.items():
        weight = weights[name]
        if not (isinstance(weight, Tensor) and weight.dtype in _KINDS and weight.layout == torch.strided):
            kind = weight.dtype if isinstance(weight, Tensor) else type(weight).__name__
            raise InputError(f"the weight {name} of {source} is of kind {kind}: wanted a dense tensor of real numbers")
        if tuple(weight.shape) != shape:
            raise InputError(
                f"the weight {name} of {source} has shape {tuple(weight.shape)}: wanted {shape}, to fit the others; "
                "check that all files belong together"
            )
        if weight.is_meta or not _is_finite(weight):
            raise InputError(
                f"the weight {name} of {source} holds values that are not finite (NaN, infinity, or none at all): "
                "wanted numbers; its training went wrong, take an earlier checkpoint"
            )


def _is_finite(weight: Tensor) -> bool:
    """Whether all values are; what is not shows in their sum, which is many times faster to find than each of them."""
    return bool(torch.isfinite(weight.sum(dtype=torch.float32))) or bool(torch.isfinite(weight).all())


def _without_memory(config: CaptionerConfig) -> CaptioningSystem:
    with torch.device("meta"), Undrawn():
        return make_system(config)


def _named(names: Iterable[str]) -> str:
    first, *rest = sorted(names)
    return f"{first} and {len(rest)} more weights" if rest else f"the weight {first}"
