"""Checks of loaded weights against the model that they are for."""

from collections.abc import Iterable, Mapping
from math import prod

import torch
from torch import Tensor

from sct.errors import InputError
from sct.limits import MAX_WEIGHTS

_FLOAT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_state_dict(weights: Mapping[str, object], expected: Mapping[str, tuple[int, ...]], source: object) -> None:
    """Raise unless weights have exactly the expected names and shapes, a float dtype, and finite values."""
    if missing := expected.keys() - weights.keys():
        raise InputError(f"{source} lacks {_summarize(missing)}, expected {len(expected)} weights: get the file again")
    if extra := weights.keys() - expected.keys():
        raise InputError(
            f"{source} has {_summarize(extra)} besides the {len(expected)} expected weights: check that it is the "
            "right file"
        )
    for name, shape in expected.items():
        weight = weights[name]
        if not (isinstance(weight, Tensor) and weight.dtype in _FLOAT_DTYPES and weight.layout == torch.strided):
            kind = weight.dtype if isinstance(weight, Tensor) else type(weight).__name__
            raise InputError(f"{source}: weight {name} is a {kind}, expected a dense float tensor")
        if tuple(weight.shape) != shape:
            raise InputError(
                f"{source}: weight {name} has shape {tuple(weight.shape)}, expected {shape}: check that all files "
                "belong together"
            )
        if weight.is_meta or not _is_finite(weight):
            raise InputError(
                f"{source}: weight {name} has values that are not finite: training diverged, use an earlier checkpoint"
            )


def check_num_weights(shapes: Iterable[tuple[int, ...]], source: object) -> None:
    """Raise if a network would have too many weights, before they are allocated.

    >>> check_num_weights([(1 << 16, 1 << 16)], "the model")
    Traceback (most recent call last):
    ...
    sct.errors.InputError: the model would have 4,294,967,296 weights, expected at most 1,073,741,824: lower its sizes
    """
    count = sum(map(prod, shapes))
    if count > MAX_WEIGHTS:
        raise InputError(f"{source} would have {count:,} weights, expected at most {MAX_WEIGHTS:,}: lower its sizes")


def _is_finite(weight: Tensor) -> bool:
    """Whether all values are finite; a finite sum shows it many times faster than each value does."""
    return bool(torch.isfinite(weight.sum(dtype=torch.float32))) or bool(torch.isfinite(weight).all())


def _summarize(names: Iterable[str]) -> str:
    first, *rest = sorted(names)
    return f"{first} and {len(rest)} more" if rest else first
