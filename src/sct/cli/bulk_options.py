"""Options of bulk jobs, which ``caption``, ``detect``, ``prepare`` and ``score`` share, and the rule that selects them.

A command is a bulk job if one of these options is given, or if an input is a shard by its name (``.tar``, ``.parquet``,
``.jsonl``, a URL) or a folder that has shards and no images, and ``--out`` is no file of results.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sct.cli.printing import print_message
from sct.errors import InputError
from sct.limits import MAX_BATCH_SIZE, MAX_THREADS

if TYPE_CHECKING:
    from sct.bulk.driver import RunConfig, RunResult
    from sct.bulk.shards import Shard
    from sct.bulk.task import Compute, ImagePaths, ShardTask

_BULK = "Bulk jobs"
RESULT_SUFFIXES = (".jsonl", ".safetensors")
"""Suffixes of ``--out`` that name a file of results rather than the folder of a job."""


def _option(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_BULK, **settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOptions:
    """Values of the options; the annotations are those of the command line."""

    engine: Annotated[
        Literal["local", "ray"] | None,
        _option(help="Bulk job: processes of this computer (default), or actors of a Ray cluster."),
    ] = None
    address: Annotated[str | None, _option(help="Bulk job: address of the Ray cluster.")] = None
    workers: Annotated[
        int | None,
        _option(min=1, max=MAX_THREADS, help="Bulk job: number of workers; default: as many as CPUs and GPUs allow."),
    ] = None
    cpus_each: Annotated[
        int, _option(min=1, max=MAX_THREADS, help="Bulk job: CPUs, and threads of PyTorch, of each worker.")
    ] = 1
    gpus_each: Annotated[
        float | None,
        _option(min=0, help="Bulk job: GPUs of each worker, also a fraction; default: 1 with --device cuda."),
    ] = None
    take: Annotated[
        str | None, _option(metavar="K/N", help="Bulk job: the K-th of N parts of the shards, for job arrays.")
    ] = None
    images_per_shard: Annotated[
        int | None, _option(min=1, help="Bulk job: cut folders of images, with subfolders, into shards of this size.")
    ] = None
    row_format: Annotated[
        Literal["parquet", "jsonl"] | None, _option("--format", help="Bulk job: format of outputs; default: parquet.")
    ] = None
    batch_size: Annotated[
        int | None, _option(min=1, max=MAX_BATCH_SIZE, help="Bulk job: images per batch; default: 256 on a GPU, or 8.")
    ] = None
    features: Annotated[
        Literal["none", "control", "all"] | None,
        _option(help="Bulk job: region features to write, of no, the described or all regions; default: none."),
    ] = None
    attention: Annotated[bool, _option("--attention", help="Bulk job: write the attention of each word.")] = False
    image_root: Annotated[
        str | None, _option(help="Bulk job: folder or URL of images that shards name; default: that of the shard.")
    ] = None
    allow_absolute_paths: Annotated[
        bool, _option("--allow-absolute-paths", help="Bulk job: let shards name any file that can be read.")
    ] = False
    max_errors: Annotated[int, _option(min=0, help="Bulk job: images that may fail; more of them fail the job.")] = 1000
    max_attempts: Annotated[int, _option(min=1, max=1000, help="Bulk job: attempts at a shard whose worker dies.")] = 5
    stall_minutes: Annotated[
        float, _option(min=0, help="Bulk job: time without progress after which a worker is killed; 0: any time.")
    ] = 30.0

    @property
    def is_any_given(self) -> bool:
        """Whether an option has another value than its default."""
        return self != BulkOptions()

    def compute(self, device: str) -> "Compute":
        """Threads, GPUs and batch size of a worker."""
        from sct.bulk.task import Compute  # noqa: PLC0415

        gpus = (0.0 if device == "cpu" else 1.0) if self.gpus_each is None else self.gpus_each
        return Compute(device=device, cpus_each=self.cpus_each, gpus_each=gpus, batch_size=self.batch_size)

    def paths(self) -> "ImagePaths":
        """Where the paths in shards lead."""
        from sct.bulk.task import ImagePaths  # noqa: PLC0415

        return ImagePaths(root=self.image_root, allow_absolute=self.allow_absolute_paths)

    def run_config(self, compute: "Compute") -> "RunConfig":
        """How the job is run."""
        from sct.bulk.driver import RunConfig  # noqa: PLC0415

        return RunConfig(
            engine=self.engine or "local",
            address=self.address,
            workers=self.workers,
            threads=compute.cpus_each,
            gpus_each=compute.gpus_each,
            take=self.take,
            max_errors=self.max_errors,
            max_attempts=self.max_attempts,
            stall_minutes=self.stall_minutes,
        )

    def list_shards(self, inputs: Sequence[str]) -> "tuple[Shard, ...]":
        """List the shards of inputs."""
        from sct.bulk.shards import list_shards  # noqa: PLC0415

        return list_shards(inputs, images_per_shard=self.images_per_shard)


def with_bulk_options(*left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of bulk jobs to a command, which takes them as the argument ``bulk``.

    Those ``left_out`` are not offered; those that the command has itself are passed to both.
    """

    def add(command: Callable[..., None]) -> Callable[..., None]:
        own = signature(command).parameters
        names = [each.name for each in fields(BulkOptions) if each.name not in left_out]

        @wraps(command)
        def run(*arguments: Any, **options: Any) -> None:
            values = {name: options[name] if name in own else options.pop(name) for name in names}
            command(*arguments, **options, bulk=BulkOptions(**values))

        added = [
            Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type)
            for each in fields(BulkOptions)
            if each.name in names and each.name not in own
        ]
        kept = [parameter for parameter in own.values() if parameter.name != "bulk"]
        run.__signature__ = signature(command).replace(parameters=[*kept, *added])  # type: ignore[attr-defined]
        annotations = {parameter.name: parameter.annotation for parameter in (*kept, *added)}
        run.__annotations__ = {**annotations, "return": None}
        return run

    return add


def is_bulk(inputs: Sequence[str], out: str | None, bulk: BulkOptions) -> bool:
    """Whether a command is a bulk job, by the rule of this module."""
    from sct.bulk.shards import is_shard_input  # noqa: PLC0415

    if out is not None and out.endswith(RESULT_SUFFIXES) and not Path(out).is_dir():
        return False
    return bulk.is_any_given or any(is_shard_input(text) or _has_only_shards(text) for text in inputs)


def _has_only_shards(text: str) -> bool:
    from sct.bulk.shards import KINDS  # noqa: PLC0415
    from sct.regions.images import SUFFIXES  # noqa: PLC0415

    try:
        suffixes = {path.suffix.lower() for path in Path(text).iterdir()}
    except (OSError, ValueError):
        return False
    return bool(suffixes & KINDS.keys()) and not suffixes & SUFFIXES


def refuse_options(given: dict[str, bool]) -> None:
    """Raise about an option that has no use in a bulk job."""
    for name, is_given in given.items():
        if is_given:
            raise InputError(f"got {name} in a bulk job, which has no use for it: omit it")


def run_bulk(task: "ShardTask", inputs: Sequence[str], out: str | None, bulk: BulkOptions, compute: "Compute") -> None:
    """Run a bulk job with a progress bar; print a summary, and exit with 2 if a shard failed."""
    from sct.bulk.driver import run_job  # noqa: PLC0415
    from sct.bulk.location import Location  # noqa: PLC0415
    from sct.cli.progress import progress_bar  # noqa: PLC0415

    if out is None:
        raise InputError("got shards without --out: give the folder or URL of the job's outputs")
    shards = bulk.list_shards(inputs)
    with progress_bar("shards") as progress:
        result = run_job(task, shards, Location.parse(out), bulk.run_config(compute), progress=progress)
    print_run(result)


def print_run(result: "RunResult", what: str = "images") -> None:
    """Print what a run did, and exit with 2 if a shard failed.

    A failed shard has a line, of which the last one ends with the summary.
    """
    rate = f", {result.num_images / result.seconds:.1f} per second" if result.num_images and result.seconds else ""
    summary = (
        f"shards: {result.num_run:,} done, {result.num_found:,} found done, {len(result.failures):,} failed; "
        f"{what}: {result.num_images:,} done{rate}, {result.num_errors:,} failed in all"
    )
    lines = [f"shard {failure.shard} failed: {failure.reason}" for failure in result.failures]
    for line in lines[:-1]:
        print_message(line)
    print_message("; ".join([*lines[-1:], summary]))
    if result.failures:
        raise typer.Exit(2)
