"""Steps that a worker counts, so that the driver can tell a slow worker from one that hangs."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ctypes import c_uint64
from typing import TypeVar

ItemT = TypeVar("ItemT")
_ALIVE_SECONDS = 0.5


class StepCounter:
    """Counts images read, images finished and files published; only that the count changes has a meaning."""

    def __init__(self, steps: c_uint64 | None = None) -> None:
        """``steps``: memory shared with the driver; None: memory of this process."""
        self._steps = c_uint64() if steps is None else steps

    @property
    def num_steps(self) -> int:
        """Steps so far."""
        return self._steps.value

    def add_step(self) -> None:
        """Count a step; of steps in several threads at once, some may be lost."""
        self._steps.value += 1

    def track(self, items: Iterable[ItemT]) -> Iterator[ItemT]:
        """Yield items, and count each as it is taken."""
        for item in items:
            self.add_step()
            yield item

    @contextmanager
    def keep_alive(self) -> Iterator[None]:
        """Count time as steps during work that has none of its own: then only a process that is stopped hangs."""
        ended = threading.Event()

        def count() -> None:
            while not ended.wait(_ALIVE_SECONDS):
                self.add_step()

        thread = threading.Thread(target=count, name="steps", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
