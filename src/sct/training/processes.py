"""What processes that train together must agree on: one that decides by itself leaves the others waiting for ever."""

import atexit

import torch
import torch.distributed
from jaxtyping import Bool, Float
from lightning_fabric import Fabric
from torch import Tensor

from sct.training.losses import masked_mean


def launch(fabric: Fabric) -> None:
    """Begin to talk with the other processes, and see to it that they part before Python ends.

    A process that exits without parting may abort: threads of the gloo backend still hold what Python frees. Parting
    any earlier would leave the next training in the same process with nobody to talk to.
    """
    was_talking = torch.distributed.is_initialized()
    fabric.launch()
    if torch.distributed.is_initialized() and not was_talking:
        atexit.register(_part)


def _part() -> None:
    if torch.distributed.is_initialized():
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
