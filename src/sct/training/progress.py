"""How a run is getting on, in one line."""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

logger = logging.getLogger(__name__)


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


class Pace:
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
