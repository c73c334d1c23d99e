"""How exactly a run computes: what its recipe asks for, or what its stage needs.

Being asked to stop: the first signal is a wish, which the loop grants between two steps; the second is not.

What processes that train together must agree on: one that decides by itself leaves the others waiting for ever.
"""

import atexit
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Literal

import torch
import torch.distributed
from jaxtyping import Bool, Float
from lightning_fabric import Fabric
from torch import Tensor

from sct.training.captioner.config import Recipe
from sct.training.captioner.losses import masked_mean

Arithmetic = Literal["32-true", "tf32", "bf16-mixed"]


def arithmetic_of(recipe: Recipe) -> Arithmetic:
    """What is asked for; auto is float32 on a CPU, and on a GPU what the stage bears.

    The words stage learns in bfloat16 as well as in float32. Self-critical stages do not: captions are said in float16,
    and what is followed must come from the distribution they were said from. In bfloat16 they fell apart after a
    thousand steps (docs/training.md); TF32 has the mantissa of float16.
    """
    settings = recipe.device
    if settings.precision != "auto":
        return settings.precision
    on_gpu = settings.accelerator in ("auto", "cuda", "gpu") and torch.cuda.is_available()
    if not on_gpu:
        return "32-true"
    if recipe.objective.stage != "words":
        return "tf32"
    return "bf16-mixed" if torch.cuda.is_bf16_supported() else "tf32"


@contextmanager
def products_in(arithmetic: Arithmetic) -> Iterator[None]:
    """Let float32 products of a GPU be rounded to TF32 for a while, or not."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if arithmetic == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interrupts:
    """Turn SIGTERM and Ctrl-C into a flag for as long as the block lasts.

    Once it is up, both signals do again what they did before, so that whoever will not wait for the checkpoint can
    insist. Where Python hands out no signals, in any thread but the main one, the flag stays down and all is as before.

    >>> with Interrupts() as interrupts:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     interrupts.stop_requested
    <Signals.SIGTERM: 15>
    """

    def __init__(self) -> None:
        """Change nothing yet: signals are caught from the beginning of the block."""
        self._wanted: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    @property
    def stop_requested(self) -> signal.Signals | None:
        """The signal that asks to stop; none, which is false: nobody does."""
        return self._wanted

    def __enter__(self) -> "Interrupts":
        """Begin to catch signals."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put everything back, whatever happened."""
        self._restore()

    def _ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._wanted = signal.Signals(number)
        self._restore()
        logger.warning("%s: saving a checkpoint before leaving; once more to leave at once", self._wanted.name)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            # None: it was set by something else than Python, which alone can put it back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before = {}


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
