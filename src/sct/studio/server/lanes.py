"""Side work in threads, no more of it than may wait."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from sct.studio.server.worker import Full

Taken = ParamSpec("Taken")
Given = TypeVar("Given")


class Lane:
    """Runs functions in a few threads; what nobody waits for any more, and has not begun, is never run."""

    def __init__(self, name: str, *, threads: int, most: int) -> None:
        """``most``: functions that run or wait."""
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._most, self._taken = most, 0
        self._lock = threading.Lock()

    async def run(self, function: Callable[Taken, Given], *args: Taken.args, **kwargs: Taken.kwargs) -> Given:
        """Run a function and wait for what it gives."""
        with self._lock:
            if self._taken >= self._most:
                raise Full
            self._taken += 1
        future = self._threads.submit(function, *args, **kwargs)
        future.add_done_callback(self._leave)
        return await asyncio.wrap_future(future)

    def _leave(self, _: "Future[Given]") -> None:
        with self._lock:
            self._taken -= 1

    def stop(self) -> None:
        """Finish what runs and end the threads."""
        self._threads.shutdown(cancel_futures=True)
