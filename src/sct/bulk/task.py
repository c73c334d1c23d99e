"""What a bulk job does with each shard: settings that the driver pickles, and a processor that each worker builds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from sct.bulk.image_root import ImageRoot
from sct.bulk.location import Location
from sct.bulk.output import ShardOutput
from sct.bulk.shards import Shard
from sct.errors import InputError
from sct.limits import MAX_BATCH_SIZE, MAX_THREADS, check_integer


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """What a worker computes on; the threads and the batch size have an influence on the last digits of scores."""

    device: str = "cpu"
    cpus_each: int = 1
    """CPU threads of PyTorch in a worker."""
    gpus_each: float = 0.0
    """Share of a GPU that Ray reserves for a worker."""
    batch_size: int | None = None
    """Images per batch; None: 256 on a GPU, or 8."""

    def __post_init__(self) -> None:
        """Check ranges."""
        check_integer("cpus_each", self.cpus_each, 1, MAX_THREADS)
        if self.batch_size is not None:
            check_integer("batch_size", self.batch_size, 1, MAX_BATCH_SIZE)
        if not 0 <= self.gpus_each <= 64:
            raise InputError(f"got gpus_each {self.gpus_each}, expected 0 to 64")

    @property
    def images_per_batch(self) -> int:
        """Batch size in effect."""
        return self.batch_size or (8 if self.device == "cpu" else 256)

    @property
    def decode_threads(self) -> int:
        """Threads that decode ahead of the model: one beside a CPU, which is busy anyway."""
        return 1 if self.device == "cpu" else max(4, self.cpus_each)

    def settings(self) -> dict[str, Any]:
        """What determines the bytes of outputs."""
        return {"device": self.device, "threads": self.cpus_each, "batch_size": self.images_per_batch}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePaths:
    """Where the paths in shards lead."""

    root: str | None = None
    """Folder or URL; None: the folder of each shard."""
    allow_absolute: bool = False

    def root_of(self, shard: Shard) -> ImageRoot:
        """Folder of the images of a shard."""
        folder = shard.location.parent if self.root is None else Location.parse(self.root)
        return ImageRoot(folder=folder, allow_absolute=self.allow_absolute)


@runtime_checkable
class ShardProcessor(Protocol):
    """Processes shards in a worker; made once per worker, with its models."""

    def process(self, shard: Shard, output: ShardOutput) -> Mapping[str, Any]:
        """Write the outputs of a shard; returns what its report says besides images and errors."""
        ...


@runtime_checkable
class ShardTask(Protocol):
    """Picklable description of a job's work."""

    @property
    def command(self) -> str:
        """Name of the command, such as "caption"."""
        ...

    def settings(self) -> dict[str, Any]:
        """JSON values that determine the outputs: a job is resumed with the same ones only."""
        ...

    def build(self) -> ShardProcessor:
        """Load the models; called in a worker."""
        ...
