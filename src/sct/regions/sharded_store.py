"""Region stores of shards, read as one through their manifest."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from jaxtyping import Float16, UInt16

from sct.errors import InputError
from sct.regions.records import NO_CLASS, Region
from sct.regions.store import RegionBatch, RegionStore, StoredRegions, check_out
from sct.regions.store_format import MANIFEST, NAMES, read_names
from sct.regions.store_manifest import FORMAT, STORES, StoresManifest, read_manifest

MAX_OPEN_STORES = 64
"""Stores that are memory-mapped at once, of six files each: few systems allow a process 1,024 open files or more."""


class ShardedRegionStore:
    """Reader of the stores of a manifest, with the interface of ``RegionStore``; open it with ``open_store``.

    Image ids are in memory; a store is mapped when one of its images is read, and the ones used last stay mapped.
    """

    def __init__(self, path: Path, manifest: StoresManifest) -> None:
        """Read the image ids of all stores; ``path`` is what a copy in another process opens."""
        self.path = path
        self.feature_size = manifest.feature_size
        self.max_regions = max(shard.max_regions for shard in manifest.stores)
        self.num_regions = sum(shard.regions for shard in manifest.stores)
        self._paths = [shard.check_files(manifest.folder) for shard in manifest.stores]
        self._index: dict[str, int] = {}
        class_ids: dict[str, int] = {}
        self._class_ids: list[UInt16[np.ndarray, " _"]] = []
        for number, (folder, shard) in enumerate(zip(self._paths, manifest.stores, strict=True)):
            images, classes = (read_names(folder / name) for name in NAMES)
            if len(images) != shard.images:
                raise FORMAT.damaged(folder / NAMES[0], f"it has {len(images)} images, the manifest {shard.images}")
            for image_id in images:
                if (other := self._index.setdefault(image_id, number)) != number:
                    raise InputError(
                        f"image {image_id!r} is in {self._paths[other]} and {folder}: expected it in one region store"
                    )
            ids = [class_ids.setdefault(name, len(class_ids)) for name in classes]
            self._class_ids.append(np.array([*ids, NO_CLASS], np.int64).astype(np.uint16))
        if len(class_ids) > NO_CLASS:
            raise InputError(f"the stores of {path} have {len(class_ids):,} classes, expected at most {NO_CLASS:,}")
        self.class_names = tuple(class_ids)
        self.ids = tuple(self._index)
        self._open: OrderedDict[int, RegionStore] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path only; worker processes map the files themselves."""
        return open_store, (self.path,)

    def __len__(self) -> int:
        """Number of images."""
        return len(self.ids)

    def __contains__(self, image_id: object) -> bool:
        """Whether the image is in one of the stores."""
        return image_id in self._index

    def image(self, image_id: str) -> StoredRegions:
        """Regions of one image, as views, except for classes, which are numbered as in ``class_names``."""
        number = self._number(image_id)
        stored = self._store(number).image(image_id)
        return replace(stored, classes=self._renumber(number, stored.classes))

    def regions(self, image_id: str) -> tuple[Region, ...]:
        """Regions of one image as records, without features."""
        return self._store(self._number(image_id)).regions(image_id)

    def new_buffer(self, num_images: int) -> Float16[np.ndarray, "rows features"]:
        """Buffer for the features of any ``num_images`` images, to be reused as ``out`` of ``gather``."""
        return np.empty((num_images * self.max_regions, self.feature_size), dtype=np.float16)

    def gather(
        self, image_ids: Sequence[str], *, out: Float16[np.ndarray, "space features"] | None = None
    ) -> RegionBatch:
        """Copy the regions of several images, of any stores, into one flat batch, in the given order."""
        numbers = np.array([self._number(image_id) for image_id in image_ids], np.int64)
        if len(numbers) and (numbers == numbers[0]).all():
            batch = self._store(int(numbers[0])).gather(image_ids, out=out)
            return replace(batch, classes=self._renumber(int(numbers[0]), batch.classes))
        counts = np.zeros(len(numbers), np.int64)
        parts: list[tuple[np.ndarray, RegionBatch]] = []
        for number in np.unique(numbers).tolist():
            positions = np.flatnonzero(numbers == number)
            part = self._store(number).gather([image_ids[position] for position in positions.tolist()])
            parts.append((positions, replace(part, classes=self._renumber(number, part.classes))))
            counts[positions] = np.diff(part.offsets)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        num_rows = int(offsets[-1])
        batch = RegionBatch(
            image_ids=tuple(image_ids),
            features=check_out(out, num_rows, self.feature_size),
            boxes=np.empty((num_rows, 4), np.float32),
            classes=np.empty(num_rows, np.uint16),
            scores=np.empty(num_rows, np.float32),
            sizes=np.empty((len(numbers), 2), np.float32),
            offsets=offsets,
        )
        for positions, part in parts:
            rows = np.arange(part.offsets[-1]) + np.repeat(offsets[positions] - part.offsets[:-1], counts[positions])
            for name in ("features", "boxes", "classes", "scores"):
                getattr(batch, name)[rows] = getattr(part, name)
            batch.sizes[positions] = part.sizes
        return batch

    def _number(self, image_id: str) -> int:
        try:
            return self._index[image_id]
        except KeyError:
            raise InputError(
                f"image {image_id!r} is not in the {len(self._paths)} stores of {self.path}, which have {len(self)} "
                "images: add the store that has it to the manifest"
            ) from None

    def _store(self, number: int) -> RegionStore:
        """Map a store, and let go of the one that was not used for longest; views of its images stay valid."""
        with self._lock:
            store = self._open.pop(number, None) or RegionStore.open(self._paths[number])
            if store.feature_size != self.feature_size:
                raise InputError(
                    f"got features of size {store.feature_size} in {store.path}, expected {self.feature_size}, that of "
                    f"the manifest: {FORMAT.remedy}"
                )
            self._open[number] = store
            while len(self._open) > MAX_OPEN_STORES:
                self._open.popitem(last=False)
            return store

    def _renumber(self, number: int, classes: UInt16[np.ndarray, " _"]) -> UInt16[np.ndarray, " _"]:
        ids = self._class_ids[number]
        last = len(ids) - 1
        if not ((classes < last) | (classes == NO_CLASS)).all():
            raise FORMAT.damaged(self._paths[number] / "classes.u16", "it has classes out of range")
        renumbered: np.ndarray = ids[np.minimum(classes, last)]
        return renumbered


AnyRegionStore = RegionStore | ShardedRegionStore


def open_store(path: str | Path) -> AnyRegionStore:
    """Open a region store, or the stores of a manifest: ``stores.json`` or its folder."""
    path = Path(path)
    if path.is_file() or ((path / STORES).is_file() and not (path / MANIFEST).is_file()):
        return ShardedRegionStore(path, read_manifest(path))
    return RegionStore.open(path)
