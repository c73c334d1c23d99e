"""One step of training: loss, gradient, update; on a single GPU recorded once as a CUDA graph and replayed.

A step launches thousands of small kernels, and launching them takes longer than running them. A recorded step is a
single launch.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from sct.errors import InputError
from sct.models.interface import CaptionModel
from sct.training.captioner.losses import Loss

Objective = Callable[[CaptionModel, Tensor, Tensor], Loss]
"""From a network, the rows of the chosen examples and noise to a loss."""

_STEPS_BEFORE_RECORDING = 3
"""Libraries set themselves up in the first steps, and the optimiser makes its moments."""


class LossModule(nn.Module):
    """A network with what it is to learn, as one module: what wraps it, for several GPUs say, sees it all."""

    def __init__(self, network: CaptionModel, objective: Objective) -> None:
        super().__init__()
        self.network = network
        self.objective = objective
        self.part_names: tuple[str, ...] = ()

    def forward(self, chosen: Int[Tensor, " batch"], noise: Tensor) -> tuple[Tensor, Tensor]:
        """Total loss and, for people, all its parts in the order of ``part_names``."""
        loss = self.objective(self.network, chosen, noise)
        self.part_names = ("loss", *loss.parts)
        return loss.total, torch.stack([loss.total.detach(), *loss.parts.values()])


class TrainingStep:
    """Takes steps one after the other, and adds up what they report until somebody looks."""

    def __init__(
        self,
        learner: LossModule,
        forward: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
        optimiser: torch.optim.Optimizer,
        backward: Callable[[Tensor], Any],
        *,
        clip_norm: float = 0.0,
        record: bool = False,
        average: Callable[[Tensor], Tensor] = lambda values: values,
    ) -> None:
        """``forward`` is the learner's, in whatever wraps it; ``average`` is over all processes."""
        self._learner = learner
        self._forward = forward
        self._optimiser = optimiser
        self._backward = backward
        self._clip_norm = clip_norm
        self._record = record
        self._average = average
        self._weights = [weight for weight in learner.parameters() if weight.requires_grad]
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: tuple[Tensor, Tensor] | None = None
        self._totals: Tensor | None = None
        self._taken: Tensor | None = None
        self._bad: Tensor | None = None
        self._steps = 0
        self._warm = 0

    def __call__(self, chosen: Int[Tensor, " batch"], noise: Tensor, learning_rate: float) -> None:
        """Learn from the chosen examples; what went wrong is told by ``report``."""
        self._set_learning_rate(learning_rate)
        self._steps += 1
        if not self._record:
            self._take(chosen, noise)
        elif self._graph is not None and self._inputs is not None:
            self._inputs[0].copy_(chosen)
            self._inputs[1].copy_(noise, non_blocking=True)
            self._graph.replay()
        else:
            self._warm_up_or_record(chosen, noise.to(chosen.device))

    def report(self) -> dict[str, float]:
        """Means of all parts over the steps since the last report; waits for the device."""
        if self._totals is None or not self._steps:
            return {}
        means = self._average(self._totals / self._steps).tolist()
        self._totals.zero_()
        self._steps = 0
        return dict(zip(self._learner.part_names, means, strict=True))

    def first_bad(self) -> int | None:
        """The first of all steps taken, counted from 0, whose loss or gradient was not finite; waits for the device."""
        number = -1 if self._bad is None else int(self._bad)
        return None if number < 0 else number

    def _take(self, chosen: Tensor, noise: Tensor) -> None:
        self._optimiser.zero_grad(set_to_none=True)
        total, parts = self._forward(chosen, noise)
        self._backward(total)
        length = nn.utils.clip_grad_norm_(self._weights, self._clip_norm or torch.inf)
        self._optimiser.step()
        if self._totals is None or self._taken is None or self._bad is None:
            self._totals = torch.zeros_like(parts)
            self._taken = torch.zeros((), dtype=torch.long, device=parts.device)
            self._bad = torch.full_like(self._taken, -1)
        self._totals += parts
        # A loss may be finite and its gradient not: the weights are lost then, one step before the loss tells.
        is_first_bad = ~(torch.isfinite(parts).all() & torch.isfinite(length)) & (self._bad < 0)
        self._bad.copy_(torch.where(is_first_bad, self._taken, self._bad))
        self._taken += 1

    def _warm_up_or_record(self, chosen: Tensor, noise: Tensor) -> None:
        if self._warm < _STEPS_BEFORE_RECORDING:
            self._warm += 1
            stream = torch.cuda.Stream(chosen.device)
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):  # not the usual stream, as recording demands
                self._take(chosen, noise)
            torch.cuda.current_stream().wait_stream(stream)
            return
        self._inputs = (chosen.clone(), noise.clone())
        self._graph = torch.cuda.CUDAGraph()
        self._optimiser.zero_grad(set_to_none=True)
        with torch.cuda.graph(self._graph):
            self._take(*self._inputs)
        self._graph.replay()

    def _set_learning_rate(self, learning_rate: float) -> None:
        for group in self._optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(learning_rate)  # a recorded step reads it from there
            else:
                group["lr"] = learning_rate


def make_optimiser(network: nn.Module, device: torch.device) -> torch.optim.Adam:
    """Adam, on a GPU as one kernel that a graph can record."""
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    if not weights:
        raise InputError("the captioner has no weight that may learn: expected at least one")
    if device.type == "cuda":
        return torch.optim.Adam(weights, lr=torch.zeros((), device=device), fused=True, capturable=True)
    return torch.optim.Adam(weights, lr=0.0)
