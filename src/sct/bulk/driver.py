"""The driver of a job: hands the shards that have no report to an engine and counts what comes back."""

import json
import math
import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal

from sct.bulk.engine import Engine, Outcome, run_shards
from sct.bulk.job import JOB, Job, JobFile
from sct.bulk.local_engine import LocalEngine
from sct.bulk.location import Location
from sct.bulk.ray_engine import RayEngine
from sct.bulk.shards import Shard, take_shards
from sct.bulk.task import ShardTask
from sct.bulk.worker import WorkerConfig
from sct.errors import InputError
from sct.limits import MAX_THREADS, check_integer

EngineName = Literal["local", "ray"]
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """How a job is run; none of it has an influence on the outputs."""

    engine: EngineName = "local"
    address: str | None = None
    """Of the Ray cluster."""
    workers: int | None = None
    """Number of workers; None: as many as CPUs and GPUs allow."""
    threads: int = 1
    """CPU threads of each worker."""
    gpus_each: float = 0.0
    take: str | None = None
    """Part of a job array, "3/16"."""
    max_errors: int | None = 1000
    """Images of the job that may fail; None: any number."""
    max_attempts: int = 5
    """Attempts at a shard whose worker dies."""
    stall_minutes: float = 30.0
    """Minutes without progress after which a worker is killed; 0: it may take any time."""

    def __post_init__(self) -> None:
        """Check ranges and combinations."""
        if self.workers is not None:
            check_integer("workers", self.workers, 1, MAX_THREADS)
        check_integer("max_attempts", self.max_attempts, 1, 1000)
        if not 0 <= self.stall_minutes < math.inf:
            raise InputError(f"got --stall-minutes {self.stall_minutes}, expected 0 or more")
        if self.engine == "local" and self.address is not None:
            raise InputError("got --address without --engine ray: add it, or omit the address")

    def build(self) -> Engine:
        """Start the engine, without workers."""
        if self.engine == "local":
            return LocalEngine(threads=self.threads, num_workers=self.workers)
        return RayEngine(threads=self.threads, address=self.address, num_workers=self.workers, gpus_each=self.gpus_each)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A shard that was given up."""

    shard: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run of a job did."""

    num_shards: int
    """Shards of the job, or of its part."""
    num_found: int
    """Shards that were done before, or by another driver meanwhile."""
    num_run: int
    """Shards that this run finished."""
    num_images: int
    """Images of those."""
    num_errors: int
    """Images that failed, in all finished shards of the job or its part."""
    failures: tuple[Failure, ...]
    seconds: float


def run_job(
    task: ShardTask,
    shards: Sequence[Shard],
    out: Location,
    config: RunConfig,
    *,
    progress: Progress | None = None,
) -> RunResult:
    """Process all shards without a report; the same call resumes a job, and several drivers may share one.

    Outputs of a shard are the same bytes whoever writes them and appear at once, so that two drivers that process the
    same shard do no harm. More failed images than ``max_errors`` are an error.
    """
    _check_output(out, shards)
    taken = take_shards(shards, config.take)  # refused before anything is written
    file = JobFile.create(task.command, task.settings(), shards)
    is_new = out.child(JOB).entry() is None
    start = perf_counter()
    with ExitStack() as stack:
        # Before the job file is written, so that a cluster that cannot be reached leaves nothing behind.
        engine = stack.enter_context(closing(config.build())) if is_new else None
        job = file.open(out)
        done = job.read_reports(shard.name for shard in taken)
        counts = _Counts(config.max_errors, out, sum(report.num_errors for report in done.values()))
        counts.check()
        missing = [shard for shard in taken if shard.name not in done]
        if not is_new:  # another driver may be at work: in another order, the two seldom process the same shard
            random.shuffle(missing)
        if progress is not None:
            progress(len(done), len(taken))
        if missing:
            worker = WorkerConfig(job=job, task=task, threads=config.threads, max_errors=config.max_errors)
            outcomes = run_shards(
                engine or config.build(),
                worker,
                missing,
                max_attempts=config.max_attempts,
                stall_seconds=60 * config.stall_minutes or None,
            )
            for number, outcome in enumerate(stack.enter_context(closing(outcomes)), start=1):
                counts.add(job, outcome)
                counts.check()
                if progress is not None:
                    progress(len(done) + number, len(taken))
    if not counts.failures and job.is_complete(shard.name for shard in shards):
        out.remove_parts()
    return RunResult(
        num_shards=len(taken),
        num_found=len(done) + counts.num_found,
        num_run=counts.num_run,
        num_images=counts.num_images,
        num_errors=counts.num_errors,
        failures=tuple(counts.failures),
        seconds=perf_counter() - start,
    )


class _Counts:
    """Sums over the outcomes of a run."""

    def __init__(self, max_errors: int | None, out: Location, num_errors: int) -> None:
        self.num_errors, self.num_images, self.num_run, self.num_found = num_errors, 0, 0, 0
        self.failures: list[Failure] = []
        self._max_errors, self._out = max_errors, out

    def add(self, job: Job, outcome: Outcome) -> None:
        result, file = outcome.result, job.failure_file(outcome.shard.name)
        if result.report is None:
            self.failures.append(Failure(shard=outcome.shard.name, reason=result.reason))
            content: dict[str, Any] = {"shard": outcome.shard.name, "reason": result.reason}
            content["attempts"] = outcome.num_attempts
            file.write_bytes(json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8", "replace"))
            return
        file.delete()
        self.num_errors += result.report.num_errors
        if result.is_new:
            self.num_run += 1
            self.num_images += result.report.num_images
        else:
            self.num_found += 1

    def check(self) -> None:
        if self._max_errors is not None and self.num_errors > self._max_errors:
            raise InputError(
                f"{self.num_errors:,} images failed, more than --max-errors {self._max_errors:,}: the reports in "
                f"{self._out.name} name them; raise --max-errors to go on"
            )


def _check_output(out: Location, shards: Sequence[Shard]) -> None:
    """Refuse an output folder that holds the input."""
    for shard in shards:
        folder = shard.location if shard.kind == "folder" else shard.location.parent
        if (folder.scheme, folder.path) == (out.scheme, out.path):
            raise InputError(f"--out {out.name} is the folder of the shards: give another one")
