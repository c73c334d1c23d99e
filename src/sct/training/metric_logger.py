"""What a run has measured: ``metrics.jsonl`` for programs, TensorBoard's files for people.

The lines of ``metrics.jsonl`` are the truth. A checkpoint knows how many bytes of them belong to it, so a run that goes
on from there cuts off what a lost future wrote, and no step stands there twice.

How a run is getting on, in one line.
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

from sct.errors import InputError

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

logger = logging.getLogger(__name__)

METRICS, TENSORBOARD = "metrics.jsonl", "tensorboard"


class MetricLogger:
    """Append what is measured; of several processes only one does, the others' journals record nothing."""

    def __init__(
        self, folder: Path, *, length: int = 0, step: int = 0, writes: bool = True, tensorboard: bool = True
    ) -> None:
        """Open the journal of a run that stands at ``step``, with the first ``length`` bytes of what is there.

        Without the package ``tensorboard`` there are no files for it, and that is logged.
        """
        self._file = _opened_at(folder / METRICS, length) if writes else None
        self._board = _board(folder / TENSORBOARD, step) if writes and tensorboard else None

    def record(self, kind: str, step: int, values: Mapping[str, float | int | str | None]) -> None:
        """Write one line, for example of the kind "train" or "validation", which another process can read at once.

        JSON has neither infinite numbers nor none, so they become null; TensorBoard shows them.
        """
        if self._file is None:
            return
        if clash := {"kind", "step"} & values.keys():
            raise InputError(f"a line of the journal with the value {min(clash)!r}: expected other names")
        line = {"kind": kind, "step": step, **{name: _plain(value) for name, value in values.items()}}
        self._file.write((json.dumps(line, allow_nan=False) + "\n").encode("utf-8"))
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(f"{kind}/{name}", value, step)

    def settle(self) -> int:
        """Wait until all lines are on disk and give their length, for the checkpoint that is about to be saved."""
        if self._file is None:
            return 0
        os.fsync(self._file.fileno())
        if self._board is not None:
            self._board.flush()
        return self._file.tell()

    def close(self) -> None:
        """Write what is left; nothing can be recorded any more."""
        if self._file is not None:
            self._file.close()
        if self._board is not None:
            self._board.close()

    def __enter__(self) -> "MetricLogger":
        """Close it at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it, whatever happened."""
        self.close()


def read_journal(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of a run's journal; the last one may be half written while the run goes on, and is left out then."""
    path = folder / METRICS
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise InputError(f"{path}, line {number}: not JSON ({error}): mend or remove it") from error


def _opened_at(path: Path, length: int) -> BinaryIO:
    """The file, to be written on from its first ``length`` bytes."""
    file = path.open("r+b" if path.exists() else "w+b")
    there = file.seek(0, os.SEEK_END)
    if there < length:
        logger.warning("%s has %s bytes, but the checkpoint knows %s: earlier lines are lost", path, there, length)
    file.seek(0)
    kept = file.read(min(there, length))
    # Whole lines only: somebody may have changed the file since.
    file.truncate(kept.rfind(b"\n") + 1)
    file.seek(0, os.SEEK_END)
    return file


def _board(folder: Path, step: int) -> "SummaryWriter | None":
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415
    except ImportError as error:
        logger.warning("no TensorBoard files (%s): pip install 'show-control-and-tell[train]' for them", error)
        return None
    # Its readers drop what an earlier writer said of the purge step and of later ones.
    return SummaryWriter(str(folder), purge_step=step + 1 if step else None)


def _plain(value: float | int | str | None) -> float | int | str | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Where a run stands; what is not known yet is none and is not shown."""

    step: int
    epoch: float
    """Epochs gone through, with the part of the present one."""
    captions_per_second: float | None = None
    losses: Mapping[str, float] = field(default_factory=dict)
    reward: float | None = None
    learning_rate: float | None = None
    seconds_left: float | None = None

    def line(self) -> str:
        """All of it, for people; what they look for most comes first, as a narrow terminal cuts the rest off.

        >>> Progress(step=1200, epoch=3.25, captions_per_second=15210.0, losses={"words": 2.125, "shifts": 0.5},
        ...          reward=0.75, learning_rate=5e-4, seconds_left=3725.0).line()
        'step 1,200, epoch 3.25, 15,210 captions/s, 1:02:05 left, words 2.125, shifts 0.500, reward 0.750, rate 5.0e-04'
        """
        parts = [f"step {self.step:,}", f"epoch {self.epoch:.2f}"]
        if self.captions_per_second is not None:
            parts.append(f"{self.captions_per_second:,.0f} captions/s")
        if self.seconds_left is not None:
            parts.append(f"{_duration(self.seconds_left)} left")
        parts += [f"{name} {value:.3f}" for name, value in self.losses.items()]
        if self.reward is not None:
            parts.append(f"reward {self.reward:.3f}")
        if self.learning_rate is not None:
            parts.append(f"rate {self.learning_rate:.1e}")
        return ", ".join(parts)


ShowProgress = Callable[[Progress], None]
"""Told how a run is getting on, as often as the loop knows."""


class ProgressLog:
    """Log a line now and then: what a run does that nobody watches on a terminal."""

    def __init__(self, every_seconds: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Log the first line at once."""
        self._every_seconds = every_seconds
        self._clock = clock
        self._due = -float("inf")

    def __call__(self, progress: Progress) -> None:
        """Log this one if the last one is long enough ago."""
        now = self._clock()
        if now >= self._due:
            self._due = now + self._every_seconds
            logger.info("%s", progress.line())


class Throughput:
    """How fast steps go by, over the last of them, so that a slow start or a validation is soon forgotten."""

    def __init__(
        self, captions_per_step: int, clock: Callable[[], float] = time.monotonic, remembered: int = 20
    ) -> None:
        """Know nothing until two steps have been marked."""
        self._captions_per_step = captions_per_step
        self._clock = clock
        self._marks: deque[tuple[int, float]] = deque(maxlen=remembered)

    def mark(self, step: int) -> None:
        """Say that a step is done; steps may be left out."""
        self._marks.append((step, self._clock()))

    def pause(self) -> None:
        """Forget the marks, as the time until the next one is spent on something else."""
        self._marks.clear()

    @property
    def captions_per_second(self) -> float | None:
        """None until it is known."""
        seconds = self._seconds_per_step()
        return self._captions_per_step / seconds if seconds else None

    def seconds_for(self, steps: int) -> float | None:
        """How long so many steps will take; none until it is known."""
        seconds = self._seconds_per_step()
        return None if seconds is None else steps * seconds

    def _seconds_per_step(self) -> float | None:
        if len(self._marks) < 2:
            return None
        (first_step, first_time), (last_step, last_time) = self._marks[0], self._marks[-1]
        return (last_time - first_time) / (last_step - first_step) if last_step > first_step else None


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
