"""One optimizer step (loss, gradients, update), on a single GPU captured as a CUDA graph and replayed.

A step launches thousands of small kernels, and launching them takes longer than running them; a graph is one launch.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sct.errors import InputError
from sct.training.loss import Loss

WARMUP_BEFORE_CAPTURE = 3
"""Eager steps before the capture, in which libraries initialise and the optimizer allocates its state."""


class LossModule(nn.Module):
    """A model and its loss as one module, which Fabric wraps for mixed precision and several GPUs."""

    def __init__(self, model: nn.Module, objective: Callable[..., Loss]) -> None:
        """``objective(model, *inputs)`` returns the loss."""
        super().__init__()
        self.model = model
        self.objective = objective
        self.term_names: tuple[str, ...] = ()

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Total loss and all terms, stacked in the order of ``term_names``."""
        loss = self.objective(self.model, *inputs)
        self.term_names = ("loss", *loss.terms)
        return loss.total, torch.stack([loss.total.detach(), *loss.terms.values()])


class OptimizerStep:
    """Takes optimizer steps and accumulates the means of the loss terms on the device."""

    def __init__(
        self,
        module: LossModule,
        optimizer: torch.optim.Optimizer,
        *,
        forward: Callable[..., tuple[Tensor, Tensor]] | None = None,
        backward: Callable[[Tensor], Any] = torch.Tensor.backward,
        clip_norm: float = 0.0,
        capture: bool = False,
        average: Callable[[Tensor], Tensor] = lambda values: values,
    ) -> None:
        """``forward`` is the wrapped module, if any; ``average`` averages over ranks; ``clip_norm`` 0: no clipping."""
        self._module = module
        self._forward = module if forward is None else forward
        self._optimizer = optimizer
        self._backward = backward
        self._clip_norm = clip_norm
        self._capture = capture
        self._average = average
        self._parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self._graph: torch.cuda.CUDAGraph | None = None
        self._static_inputs: tuple[Tensor, ...] = ()
        self._totals: Tensor | None = None
        self._loaded_sums: Tensor | None = None
        self._step_count: Tensor | None = None
        self._first_bad: Tensor | None = None
        self._steps_since_means = 0
        self._warmup_steps = 0

    def __call__(self, inputs: Sequence[Tensor], learning_rates: Sequence[float]) -> None:
        """Take one step, with one learning rate per parameter group."""
        self._set_learning_rates(learning_rates)
        self._steps_since_means += 1
        if not self._capture:
            self._step(*inputs)
        elif self._graph is not None:
            for static, given in zip(self._static_inputs, inputs, strict=True):
                static.copy_(given, non_blocking=True)
            self._graph.replay()
        else:
            self._warm_up_or_capture(inputs)

    def means(self) -> dict[str, float]:
        """Means of all terms over the steps since the last call; synchronises with the device."""
        if self._totals is None or not self._steps_since_means:
            return {}
        means = self._average(self._totals / self._steps_since_means).tolist()
        self._totals.zero_()
        self._steps_since_means = 0
        return dict(zip(self._module.term_names, means, strict=True))

    def sums(self) -> Tensor | None:
        """Sums of all terms over the steps since the last call of ``means``, then their number; None without steps."""
        if self._totals is None:
            return self._loaded_sums
        if not self._steps_since_means:
            return None
        totals = self._average(self._totals)
        return torch.cat([totals, totals.new_tensor([self._steps_since_means])])

    def load_sums(self, sums: Tensor) -> None:
        """Continue the means of an interrupted run, before the first step."""
        self._loaded_sums, self._steps_since_means = sums, int(sums[-1])

    def first_bad_step(self) -> int | None:
        """Index, from 0, of the first step with a non-finite loss or gradient; synchronises with the device."""
        index = -1 if self._first_bad is None else int(self._first_bad)
        return None if index < 0 else index

    def _step(self, *inputs: Tensor) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        total, terms = self._forward(*inputs)
        self._backward(total)
        norm = nn.utils.clip_grad_norm_(self._parameters, self._clip_norm or torch.inf)
        self._optimizer.step()
        if self._totals is None or self._step_count is None or self._first_bad is None:
            self._totals = torch.zeros_like(terms)
            if self._loaded_sums is not None:
                self._totals += self._loaded_sums[:-1].to(terms)
            self._step_count = torch.zeros((), dtype=torch.long, device=terms.device)
            self._first_bad = torch.full_like(self._step_count, -1)
        self._totals += terms
        # A finite loss may have a non-finite gradient, which ruins the weights one step before the loss shows it.
        is_first_bad = ~(torch.isfinite(terms).all() & torch.isfinite(norm)) & (self._first_bad < 0)
        self._first_bad.copy_(torch.where(is_first_bad, self._step_count, self._first_bad))
        self._step_count += 1

    def _warm_up_or_capture(self, inputs: Sequence[Tensor]) -> None:
        if self._warmup_steps < WARMUP_BEFORE_CAPTURE:
            self._warmup_steps += 1
            stream = torch.cuda.Stream(inputs[0].device)
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):  # capture requires warmup on a side stream
                self._step(*inputs)
            torch.cuda.current_stream().wait_stream(stream)
            return
        self._static_inputs = tuple(given.clone() for given in inputs)
        self._graph = torch.cuda.CUDAGraph()
        self._optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self._graph):
            self._step(*self._static_inputs)
        self._graph.replay()

    def _set_learning_rates(self, learning_rates: Sequence[float]) -> None:
        for group, learning_rate in zip(self._optimizer.param_groups, learning_rates, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(learning_rate)  # the captured step reads this tensor
            else:
                group["lr"] = learning_rate


def make_adam(model: nn.Module, device: torch.device) -> torch.optim.Adam:
    """Adam over all trainable parameters; on a GPU fused and capturable."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise InputError("the model has no trainable parameter: expected at least one")
    if device.type == "cuda":
        return torch.optim.Adam(parameters, lr=torch.zeros((), device=device), fused=True, capturable=True)
    return torch.optim.Adam(parameters, lr=0.0)
