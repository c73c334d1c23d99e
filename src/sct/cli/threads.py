"""CPU threads of a command: their number, and how they wait.

OpenMP's threads spin while they wait for each other, for milliseconds, so on a busy machine they take the CPU time that
the thread they wait for needs: at load 4 on two cores a caption took 15 times its quiet time. They are told to sleep
instead, by environment variables that the OpenMP runtime reads when it is loaded, so before the first ``import torch``.
Variables that the user has set are left alone, and importing ``sct`` sets none.
"""

import os
import sys
from typing import Annotated

import typer

from sct.limits import MAX_THREADS
from sct.storage.cpus import count_affinity, count_cores

ThreadsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MAX_THREADS,
        metavar="N",
        help="CPU threads of PyTorch.",
        show_default="OMP_NUM_THREADS, or the cores that this process may use",
    ),
]
_WAIT_POLICY = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}
"""GNU's runtime spins some 20 microseconds before it sleeps, about what sleeping and waking take; others sleep at once.

Measured with ``benchmarks/speed/captioning.py``: as fast as spinning on an idle machine, where sleeping at once is a
fifth slower.
"""
_WAIT_VARIABLES = (*_WAIT_POLICY, "KMP_BLOCKTIME")


def configure_threads(threads: int | None, num_workers: int = 1) -> None:
    """Set the number of threads and the wait policy of this process and its children.

    ``num_workers``: processes among which the cores are divided unless ``threads`` is given.
    If PyTorch has been imported already, as in a test, only a given number is applied, to this process.
    """
    if "torch" in sys.modules:
        if threads is not None:
            sys.modules["torch"].set_num_threads(threads)
        return
    if not any(name in os.environ for name in _WAIT_VARIABLES):
        os.environ.update(_WAIT_POLICY)
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    elif "OMP_NUM_THREADS" not in os.environ and (cores := max(1, count_cores() // num_workers)) < count_affinity():
        # The runtime itself counts hyper-threads and ignores quotas.
        os.environ["OMP_NUM_THREADS"] = str(cores)
