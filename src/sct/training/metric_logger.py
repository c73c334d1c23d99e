"""Metrics and progress of a run: ``metrics.jsonl``, TensorBoard, throughput and a progress line.

``metrics.jsonl`` is the record. A checkpoint stores its length in bytes, so a resumed run truncates lines that were
logged after the checkpoint, and every step is logged once.
"""

import json
import logging
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

from sct.errors import InputError, missing_extra
from sct.storage.reading import parse_json

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

logger = logging.getLogger(__name__)

METRICS_FILE, TENSORBOARD = "metrics.jsonl", "tensorboard"


class MetricLogger:
    """Appends metrics to ``metrics.jsonl`` and TensorBoard; on ranks that do not write, it does nothing."""

    def __init__(
        self, folder: Path, *, length: int = 0, step: int = 0, writes: bool = True, tensorboard: bool = True
    ) -> None:
        """Open the log of a run at ``step`` and keep the first ``length`` bytes of an existing one.

        Without the package ``tensorboard``, a warning is logged instead of writing its files.
        """
        self._file = _open_truncated(folder / METRICS_FILE, length) if writes else None
        self._tensorboard = _summary_writer(folder / TENSORBOARD, step) if writes and tensorboard else None

    def log(self, kind: str, step: int, values: Mapping[str, float | int | str | None]) -> None:
        """Write one line, of kind "train" or "validation", at once readable by other processes.

        Non-finite numbers become null, as JSON has none; TensorBoard gets them as they are.
        """
        if self._file is None:
            return
        if reserved := {"kind", "step"} & values.keys():
            raise InputError(f"got a metric named {min(reserved)!r}, which is reserved: expected another name")
        line = {"kind": kind, "step": step, **{name: _finite_or_none(value) for name, value in values.items()}}
        self._file.write((json.dumps(line, allow_nan=False) + "\n").encode("utf-8"))
        self._file.flush()
        if self._tensorboard is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._tensorboard.add_scalar(f"{kind}/{name}", value, step)

    def flush(self) -> int:
        """Sync all lines to disk and return the length of the file in bytes."""
        if self._file is None:
            return 0
        os.fsync(self._file.fileno())
        if self._tensorboard is not None:
            self._tensorboard.flush()
        return self._file.tell()

    def close(self) -> None:
        """Close the files."""
        if self._file is not None:
            self._file.close()
        if self._tensorboard is not None:
            self._tensorboard.close()

    def __enter__(self) -> "MetricLogger":
        """Close at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def read_metrics(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a run's ``metrics.jsonl``, except an incomplete last one."""
    path = folder / METRICS_FILE
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                yield parse_json(line, f"{path}, line {number}")


def _open_truncated(path: Path, length: int) -> BinaryIO:
    """Open a file for appending after its first ``length`` bytes."""
    file = path.open("r+b" if path.exists() else "w+b")
    size = file.seek(0, os.SEEK_END)
    if size < length:
        logger.warning("%s has %s bytes, the checkpoint expects %s: earlier lines are lost", path, size, length)
    file.seek(0)
    kept = file.read(min(size, length))
    # Complete lines only: the file may have been edited since.
    file.truncate(kept.rfind(b"\n") + 1)
    file.seek(0, os.SEEK_END)
    return file


def _summary_writer(folder: Path, step: int) -> "SummaryWriter | None":
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415
    except ImportError as error:
        logger.warning("%s", missing_extra("writing TensorBoard files", "train", error))
        return None
    # TensorBoard drops earlier events from purge_step on.
    return SummaryWriter(str(folder), purge_step=step + 1 if step else None)


def _finite_or_none(value: float | int | str | None) -> float | int | str | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingProgress:
    """Progress of a run; values that are None are not shown."""

    step: int
    epoch: float
    """Epochs, with the fraction of the current one."""
    throughput: float | None = None
    """Examples per second."""
    unit: str = "captions"
    """What an example is."""
    losses: Mapping[str, float] = field(default_factory=dict)
    reward: float | None = None
    learning_rate: float | None = None
    seconds_left: float | None = None

    def line(self) -> str:
        """Format as one line, the most important values first, since a narrow terminal truncates it.

        >>> TrainingProgress(step=1200, epoch=3.25, throughput=15210.0, losses={"words": 2.125, "shifts": 0.5},
        ...          reward=0.75, learning_rate=5e-4, seconds_left=3725.0).line()
        'step 1,200, epoch 3.25, 15,210 captions/s, 1:02:05 left, words 2.125, shifts 0.500, reward 0.750, lr 5.0e-04'
        """
        parts = [f"step {self.step:,}", f"epoch {self.epoch:.2f}"]
        if self.throughput is not None:
            parts.append(f"{self.throughput:,.0f} {self.unit}/s")
        if self.seconds_left is not None:
            parts.append(f"{_format_duration(self.seconds_left)} left")
        parts += [f"{name} {value:.3f}" for name, value in self.losses.items()]
        if self.reward is not None:
            parts.append(f"reward {self.reward:.3f}")
        if self.learning_rate is not None:
            parts.append(f"lr {self.learning_rate:.1e}")
        return ", ".join(parts)


OnProgress = Callable[[TrainingProgress], None]
"""Callback of a trainer, called whenever it logs training metrics."""


class ProgressLogger:
    """Logs a progress line at most every ``every_seconds``: the default callback."""

    def __init__(self, every_seconds: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Log the first line immediately."""
        self._every_seconds = every_seconds
        self._clock = clock
        self._due = -float("inf")

    def __call__(self, progress: TrainingProgress) -> None:
        """Log a line if one is due."""
        now = self._clock()
        if now >= self._due:
            self._due = now + self._every_seconds
            logger.info("%s", progress.line())


class Throughput:
    """Examples per second over a window of recent steps."""

    def __init__(self, batch_size: int, clock: Callable[[], float] = time.monotonic, window: int = 20) -> None:
        """Keep the last ``window`` updates; at least two are needed."""
        self._batch_size = batch_size
        self._clock = clock
        self._updates: deque[tuple[int, float]] = deque(maxlen=window)

    def update(self, step: int) -> None:
        """Record that ``step`` is complete; steps may be skipped."""
        self._updates.append((step, self._clock()))

    def reset(self) -> None:
        """Forget all updates, because the time until the next one is spent on something else."""
        self._updates.clear()

    @property
    def examples_per_second(self) -> float | None:
        """None until it is known."""
        seconds = self._seconds_per_step()
        return self._batch_size / seconds if seconds else None

    def seconds_for(self, steps: int) -> float | None:
        """Expected duration of this many steps; None until it is known."""
        seconds = self._seconds_per_step()
        return None if seconds is None else steps * seconds

    def _seconds_per_step(self) -> float | None:
        if len(self._updates) < 2:
            return None
        (first_step, first_time), (last_step, last_time) = self._updates[0], self._updates[-1]
        return (last_time - first_time) / (last_step - first_step) if last_step > first_step else None


def _format_duration(seconds: float) -> str:
    minutes, seconds = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
