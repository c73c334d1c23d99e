"""What caption and detect jobs share: a captioner per worker, decoded batches, rows with errors, features."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from sct.bulk.decode import DecodedItem, decode_batches
from sct.bulk.items import read_items
from sct.bulk.output import RowFormat, RowWriter, ShardOutput
from sct.bulk.shards import Shard
from sct.bulk.task import Compute, ImagePaths
from sct.captioner.bundle import bundle_sha256
from sct.captioner.captioner import Captioner, Precision, load
from sct.errors import InputError
from sct.regions.records import NO_CLASS, Region
from sct.regions.store_format import MANIFEST
from sct.regions.store_writer import RegionStoreWriter
from sct.vision.encoder import RegionVisionEncoder
from sct.vision.interface import VisionEncoder

FeatureChoice = Literal["none", "control", "all"]
"""Region features that are written: none, those of the described regions, or those of all proposals."""
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTask:
    """Settings of a job that applies a bundle to images."""

    model: Path
    model_sha256: str
    """Checksum of the bundle, which each worker compares with the one it finds."""
    precision: Precision = "float32"
    allow_download: bool = False
    compute: Compute
    row_format: RowFormat = "parquet"
    features: FeatureChoice = "none"
    paths: ImagePaths

    def image_settings(self) -> dict[str, Any]:
        """Settings that every such job has."""
        return {
            "model": self.model_sha256,
            "precision": self.precision,
            "format": self.row_format,
            "features": self.features,
            "images": self.paths.root,
            **self.compute.settings(),
        }

    def load_captioner(self) -> Captioner:
        """Load the bundle, once per worker."""
        found = bundle_sha256(self.model)
        if found != self.model_sha256:
            raise InputError(
                f"the bundle {self.model} has the checksum {found[:12]} on this computer, expected "
                f"{self.model_sha256[:12]}: copy the same bundle to all computers, or use a shared folder"
            )
        return load(
            self.model, device=self.compute.device, precision=self.precision, allow_download=self.allow_download
        )


@dataclass(frozen=True, slots=True, eq=False)
class ImageResult(Generic[ValueT]):
    """Result of an image, and the regions whose features are written."""

    value: ValueT
    regions: Sequence[Region] = ()


class ImageProcessor(ABC, Generic[ValueT]):
    """Processes the images of shards in batches; a batch that is refused is processed image by image."""

    def __init__(self, task: ImageTask) -> None:
        """Load the captioner."""
        self.task, self.captioner = task, task.load_captioner()
        if self.captioner.vision is None:
            raise InputError(f"the bundle {task.model} has no vision encoder: use one that has, such as the default")
        self.vision: VisionEncoder = self.captioner.vision

    @abstractmethod
    def schema(self) -> Any:
        """Pyarrow schema of the rows."""

    @abstractmethod
    def run_batch(self, items: Sequence[DecodedItem]) -> list[ImageResult[ValueT]]:
        """Process decoded images."""

    @abstractmethod
    def row(self, value: ValueT) -> Mapping[str, Any]:
        """Fields of the row of an image, besides key, width, height and error."""

    def process(self, shard: Shard, output: ShardOutput) -> Mapping[str, Any]:
        """Write a row per image, in the order of the shard."""
        task, compute = self.task, self.task.compute
        is_square = isinstance(self.vision, RegionVisionEncoder)
        batches = decode_batches(
            output.steps.track(read_items(shard, task.paths.root_of(shard))),
            compute.images_per_batch,
            num_threads=compute.decode_threads,
            image_size=self.vision.image_size if is_square else None,
        )
        with ExitStack() as stack:
            rows = stack.enter_context(RowWriter(output.file(f".{task.row_format}"), task.row_format, self.schema()))
            store = None if task.features == "none" else FeatureStore(output, self.vision)
            for batch in batches:
                for item, result in output.steps.track(self._results(batch)):
                    output.num_images += not item.is_repeated
                    if isinstance(result, str):
                        output.add_error(item.key, result)
                        if not item.is_repeated:
                            rows.write({"key": item.key, "error": result})
                        continue
                    assert item.image is not None
                    size = {"width": item.image.width, "height": item.image.height}
                    rows.write({"key": item.key, **size, **self.row(result.value), "error": None})
                    if store is not None:
                        store.append(item, result.regions)
        if store is not None:
            store.finish(output)
        return {}

    def _results(self, batch: Sequence[DecodedItem]) -> list[tuple[DecodedItem, ImageResult[ValueT] | str]]:
        """Result of each item, or why there is none."""
        images = [item for item in batch if item.image is not None]
        try:
            found: list[ImageResult[ValueT] | str] = list(self.run_batch(images)) if images else []
        except InputError:
            found = [self._run_one(item) for item in images]
        results = iter(found)
        return [(item, next(results) if item.image is not None else item.error or "") for item in batch]

    def _run_one(self, item: DecodedItem) -> ImageResult[ValueT] | str:
        try:
            [result] = self.run_batch([item])
        except InputError as error:
            return str(error).removeprefix(f"{item.key}: ")
        return result


class FeatureStore:
    """Region store of a shard, ``features/NAME``, written beside its rows."""

    def __init__(self, output: ShardOutput, vision: VisionEncoder) -> None:
        """Begin a store in a temporary folder."""
        names = vision.class_names if isinstance(vision, RegionVisionEncoder) else ()
        self._class_ids = {name: number for number, name in enumerate(names)}
        self._folder = output.scratch() / "store"
        self._writer = RegionStoreWriter(
            self._folder, feature_size=vision.feature_size, class_names=names, source=output.name
        )

    def append(self, item: DecodedItem, regions: Sequence[Region]) -> None:
        """Append the regions of an image."""
        assert item.image is not None
        features = [region.feature for region in regions if region.feature is not None]
        assert len(features) == len(regions)
        self._writer.append(
            item.key,
            features=np.stack(features) if features else np.zeros((0, self._writer.feature_size), np.float32),
            boxes=np.array([region.box for region in regions], np.float64).reshape(-1, 4),
            classes=np.array([self._class_ids.get(region.class_name or "", NO_CLASS) for region in regions], np.int64),
            scores=np.array([np.nan if region.score is None else region.score for region in regions], np.float64),
            width=float(item.image.width),
            height=float(item.image.height),
        )

    def finish(self, output: ShardOutput) -> None:
        """Complete the store and add its files to the output."""
        self._writer.finish()
        output.add_folder(f"features/{output.name}", self._folder, MANIFEST)
