"""Child processes that end when their parent does, and leave Ctrl-C to it."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import parent_process


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Defer Ctrl-C and start processes that ignore it: the terminal sends it to them, too, but this one stops them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def exit_with_parent() -> None:
    """Exit this process of ``multiprocessing`` when the one that started it ends, however it does."""
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent.join,), daemon=True).start()


def _exit_after(wait: Callable[[], None]) -> None:
    wait()
    os._exit(1)
