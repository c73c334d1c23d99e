"""Process-wide state of a training run: precision, stop signals and distributed ranks."""

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
from torch import Tensor

from sct.errors import InputError, missing_extra
from sct.training.loss import masked_mean

logger = logging.getLogger(__name__)

TrainingPrecision = Literal["32-true", "tf32", "bf16-mixed"]
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def resolve_precision(
    requested: Literal["auto", "32-true", "tf32", "bf16-mixed"], accelerator: str, *, is_self_critical: bool
) -> TrainingPrecision:
    """Resolve ``auto``: float32 on a CPU; on a GPU bfloat16 for cross-entropy and TF32 for self-critical stages.

    Self-critical training samples captions in float16 and then scores them with gradients, which must come from the
    same distribution: with bfloat16 it diverged after a thousand steps (docs/training.md). TF32 has float16's mantissa.
    """
    if requested != "auto":
        return requested
    if accelerator not in ("auto", "cuda", "gpu") or not torch.cuda.is_available():
        return "32-true"
    return "bf16-mixed" if not is_self_critical and torch.cuda.is_bf16_supported() else "tf32"


@contextmanager
def tf32_matmul(enabled: bool) -> Iterator[None]:
    """Enable or disable TF32 for float32 matrix products on a GPU inside the block."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if enabled else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class Interrupts:
    """Turns SIGTERM and Ctrl-C into a flag inside the block.

    After the first signal the previous handlers are restored, so a second one stops at once. Outside the main thread,
    where Python delivers no signals, the flag is never set.

    >>> with Interrupts() as interrupts:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     interrupts.stop_requested
    <Signals.SIGTERM: 15>
    """

    def __init__(self) -> None:
        """Install nothing yet: handlers are installed on entering the block."""
        self._received: signal.Signals | None = None
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def stop_requested(self) -> signal.Signals | None:
        """The signal received, if any."""
        return self._received

    def __enter__(self) -> "Interrupts":
        """Install the handlers."""
        if threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the previous handlers."""
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._received = signal.Signals(number)
        self._restore()
        logger.warning("%s: saving a checkpoint, then stopping; repeat to stop at once", self._received.name)

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            # None: the handler was not installed from Python and cannot be restored from it.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous = {}


def make_fabric(*, accelerator: str, devices: int, nodes: int, strategy: str, precision: TrainingPrecision) -> Any:
    """Lightning Fabric for devices and processes."""
    try:
        from lightning_fabric import Fabric  # noqa: PLC0415
    except ImportError as error:
        raise missing_extra("training a captioner", "train", error) from error
    try:
        return Fabric(
            accelerator=accelerator,
            devices=devices,
            num_nodes=nodes,
            strategy=strategy,
            precision="bf16-mixed" if precision == "bf16-mixed" else "32-true",
        )
    except (ImportError, RuntimeError, ValueError) as error:
        raise InputError(
            f"device.accelerator={accelerator} device.strategy={strategy} cannot be used here "
            f"({' '.join(str(error).split())[:300]}): expected what this machine has, such as device.accelerator=auto"
        ) from error


def launch(fabric: Any) -> None:
    """Launch Fabric's processes, and destroy the process group when Python exits.

    Without that, gloo's threads may abort at exit. Destroying it earlier would break the next training run in the same
    process.
    """
    was_initialized = torch.distributed.is_initialized()
    fabric.launch()
    if torch.distributed.is_initialized() and not was_initialized:
        atexit.register(destroy)


def destroy() -> None:
    """Destroy the process group, if there is one."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


class ProcessGroup:
    """Collectives over all ranks of a run; every rank must make the same calls in the same order.

    Fabric's own reduction synchronises with the device on each call, which is too slow for a training step.
    """

    def __init__(self, fabric: Any) -> None:
        """Use the ranks of a launched Lightning Fabric."""
        self._world_size: int = fabric.world_size
        self._device: torch.device = fabric.device

    def all_reduce_mean(self, values: Tensor) -> Tensor:
        """Mean over ranks; not differentiable."""
        if self._world_size == 1:
            return values
        total = values.detach().clone()
        torch.distributed.all_reduce(total)
        return total / self._world_size

    def all_reduce_min(self, value: float) -> float:
        """Minimum over ranks."""
        if self._world_size == 1:
            return value
        minimum = torch.tensor(value, dtype=torch.float64, device=self._device)
        torch.distributed.all_reduce(minimum, op=torch.distributed.ReduceOp.MIN)
        return float(minimum)

    def any_rank(self, value: bool) -> bool:
        """Whether the value is true on any rank: clocks, signals and losses differ between ranks."""
        return self.all_reduce_min(-float(value)) < 0

    def masked_mean(self, values: Float[Tensor, "*shape"], mask: Bool[Tensor, "*shape"]) -> Float[Tensor, ""]:
        """Mean of the unmasked values over the batches of all ranks, 0 if there are none.

        With gradients it is so only once gradients and logged terms have been averaged over ranks.
        """
        if self._world_size == 1:
            return masked_mean(values, mask)
        total = torch.where(mask, values, 0.0).sum()
        if not total.requires_grad:
            total = self.all_reduce_mean(total)
        return total / self.all_reduce_mean(mask.sum().float()).clamp(min=1e-9)
