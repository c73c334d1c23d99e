"""Build modules without weight initialisation."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

_RANDOM_FILLS = frozenset({Tensor.normal_, Tensor.uniform_})


class SkipInit(TorchFunctionMode):
    """Skip weight initialisation for modules built inside this context; their weights are loaded next.

    Initialising millions of weights takes longer than a caption, and on the device "meta" torch imports its compiler.

    >>> import torch
    >>> with torch.device("meta"), SkipInit():
    ...     layer = torch.nn.Linear(3, 2)
    >>> layer.weight.shape
    torch.Size([2, 3])
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Return the tensor of random fills and ``nn.init`` functions unchanged."""
        kwargs = kwargs or {}
        if func in _RANDOM_FILLS or getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs.get("tensor", *args[:1])
        return func(*args, **kwargs)
