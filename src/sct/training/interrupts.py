"""Being asked to stop: the first signal is a wish, which the loop grants between two steps; the second is not."""

import logging
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interrupts:
    """Turn SIGTERM and Ctrl-C into a flag for as long as the block lasts.

    Once it is up, both signals do again what they did before, so that whoever will not wait for the checkpoint can
    insist. Where Python hands out no signals, in any thread but the main one, the flag stays down and all is as before.

    >>> with Interrupts() as interrupts:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     interrupts.wanted
    <Signals.SIGTERM: 15>
    """

    def __init__(self) -> None:
        """Change nothing yet: signals are caught from the beginning of the block."""
        self._wanted: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    @property
    def wanted(self) -> signal.Signals | None:
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

    def _ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  the signature is Python's
        self._wanted = signal.Signals(number)
        self._restore()
        logger.warning("%s: saving a checkpoint before leaving; once more to leave at once", self._wanted.name)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            # None: it was set by something else than Python, which alone can put it back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before = {}
