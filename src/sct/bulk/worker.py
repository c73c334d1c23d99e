"""A worker: loads its models once and processes the shards that it is handed."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal

from sct.bulk.job import Job, Report, has_changed
from sct.bulk.output import ShardOutput
from sct.bulk.shards import Shard
from sct.bulk.steps import StepCounter
from sct.bulk.task import ShardProcessor, ShardTask
from sct.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """What a worker is started with; picklable."""

    job: Job
    task: ShardTask
    threads: int
    """CPU threads of PyTorch."""
    max_errors: int | None = None
    """Images of one shard that may fail before the shard does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardResult:
    """What became of a shard that a worker was handed."""

    kind: Literal["done", "failed", "retry"]
    """``failed``: the same in every attempt; ``retry``: an error of a disk or a network."""
    report: Report | None = None
    is_new: bool = False
    """Whether this worker made the report, rather than found it."""
    reason: str = ""


class Worker:
    """Processes shards, one at a time."""

    def __init__(self, config: WorkerConfig, steps: StepCounter | None = None) -> None:
        """Limit the threads; models are loaded by ``start``. ``steps`` counts what is done."""
        self._config = config
        self._steps = steps or StepCounter()
        self._processor: ShardProcessor | None = None
        set_threads(config.threads)

    def start(self) -> str | None:
        """Load the models; returns what prevents it."""
        try:
            self._processor = self._config.task.build()
        except (InputError, OSError) as error:
            return str(error)
        return None

    def count_steps(self) -> int:
        """Steps so far, in all shards; called in another thread."""
        return self._steps.num_steps

    def process(self, shard: Shard) -> ShardResult:
        """Process a shard, unless another worker has done so meanwhile."""
        self._steps.add_step()
        try:
            return self._process(shard)
        except InputError as error:
            return ShardResult(kind="failed", reason=str(error))
        except (OSError, MemoryError) as error:
            return ShardResult(kind="retry", reason=" ".join(f"{type(error).__name__}: {error}".split()))
        except Exception as error:  # reported with the shard: others may still be processed
            return ShardResult(kind="failed", reason=f"{type(error).__name__}: {error} (a bug in sct)")

    def _process(self, shard: Shard) -> ShardResult:
        assert self._processor is not None
        job = self._config.job
        found = job.read_report(shard.name)
        if found is not None:
            return ShardResult(kind="done", report=found)
        if has_changed(shard):
            raise InputError(f"{shard.location.name} has changed since the job began: give another --out")
        start = perf_counter()
        with ShardOutput(job.folder, shard.name, max_errors=self._config.max_errors, steps=self._steps) as output:
            details: Mapping[str, Any] = self._processor.process(shard, output)
            job.check()
            report = Report(
                shard=shard.name,
                job=job.fingerprint,
                num_images=output.num_images,
                num_errors=len(output.errors),
                errors=tuple(output.errors),
                files=output.publish(),
                seconds=perf_counter() - start,
                details=dict(details),
            )
        job.report_file(shard.name).write_bytes(report.encode())
        return ShardResult(kind="done", report=report, is_new=True)


def set_threads(threads: int) -> None:
    """Use this many CPU threads, which sleep while they wait; before PyTorch is imported, where possible.

    Sums depend on the number of threads, so that it must be the same for all workers of a job.
    """
    if "torch" not in sys.modules:
        os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    import torch  # noqa: PLC0415

    torch.set_num_threads(threads)
