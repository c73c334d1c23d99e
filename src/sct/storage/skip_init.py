"""Networks whose weights are about to be loaded: made without drawing any."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

_DRAWS = frozenset({Tensor.normal_, Tensor.uniform_})


class SkipInit(TorchFunctionMode):
    """Leaves the weights of modules that are made within as memory happens to be.

    To draw millions of numbers takes time, and to draw them without memory, on the device "meta", torch imports its
    compiler: both take longer than a caption.

    >>> import torch
    >>> with torch.device("meta"), SkipInit():
    ...     layer = torch.nn.Linear(3, 2)
    >>> layer.weight.shape
    torch.Size([2, 3])
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Pass over what fills a tensor by chance, and give it back as it is."""
        given = kwargs or {}
        if func in _DRAWS or getattr(func, "__module__", None) == "torch.nn.init":
            return given.get("tensor", *args[:1])
        return func(*args, **given)
