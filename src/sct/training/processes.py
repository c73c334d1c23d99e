"""What processes that train together must agree on: one that decides by itself leaves the others waiting for ever."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed
from jaxtyping import Bool, Float
from lightning_fabric import Fabric
from torch import Tensor

from sct.training.losses import masked_mean


@contextmanager
def launched(fabric: Fabric) -> Iterator[Fabric]:
    """Begin to talk with the other processes, and part from them when all is done.

    A process that exits without parting may abort: threads of the gloo backend still hold what Python frees. After an
    error it does not part, as that waits for the others, and they wait for it; whoever started them ends them.
    """
    is_ours = not torch.distributed.is_initialized()
    fabric.launch()
    yield fabric
    if is_ours and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


class Processes:
    """All processes of a run; every call must be made by all of them, in the same order.

    Fabric's own reduction waits for the device each time, which a step cannot afford.
    """

    def __init__(self, fabric: Fabric) -> None:
        self._number, self._device = fabric.world_size, fabric.device

    def average(self, values: Tensor) -> Tensor:
        """The mean of what each process has; no gradient flows through it."""
        if self._number == 1:
            return values
        total = values.detach().clone()
        torch.distributed.all_reduce(total)
        return total / self._number

    def least(self, value: float) -> float:
        """The smallest number that any process has."""
        if self._number == 1:
            return value
        least = torch.tensor(value, dtype=torch.float64, device=self._device)
        torch.distributed.all_reduce(least, op=torch.distributed.ReduceOp.MIN)
        return float(least)

    def any(self, wish: bool) -> bool:
        """Whether any process wishes it: clocks, signals and losses are not the same everywhere."""
        return self.least(-float(wish)) < 0

    def masked_mean(self, values: Float[Tensor, "*shape"], mask: Bool[Tensor, "*shape"]) -> Float[Tensor, ""]:
        """The mean of the marked values over the batches of all processes, 0 where there are none.

        Where gradients flow it is so only after the average that is taken over them, and over reports, later.
        """
        if self._number == 1:
            return masked_mean(values, mask)
        total = torch.where(mask, values, 0.0).sum()
        if not total.requires_grad:
            total = self.average(total)
        return total / self.average(mask.sum().float()).clamp(min=1e-9)
