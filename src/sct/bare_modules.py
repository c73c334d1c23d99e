"""Networks whose weights are about to be loaded: made without memory for them, and without drawing any."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_DRAWS = frozenset({Tensor.normal_, Tensor.uniform_})


@contextmanager
def bare_modules() -> Iterator[None]:
    """Give modules that are made within weights of a shape and no more.

    To draw numbers that have no memory, torch imports its compiler, which takes longer than a caption.

    >>> with bare_modules():
    ...     layer = torch.nn.Linear(3, 2)
    >>> layer.weight.shape, layer.weight.is_meta
    (torch.Size([2, 3]), True)
    """
    with torch.device("meta"), _NothingIsDrawn():
        yield


class _NothingIsDrawn(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func in _DRAWS or getattr(func, "__module__", None) == "torch.nn.init":
            return given.get("tensor", *args[:1])
        return func(*args, **given)
