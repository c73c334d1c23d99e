"""Memory-mapped region features of a whole dataset.

``sct.regions.store_format`` describes the files, ``sct.regions.store_writer`` writes them.
"""

import mmap
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float16, Float32, Int64, UInt16

from sct.errors import InputError
from sct.regions.records import NO_CLASS, Box, Region
from sct.regions.store_format import FORMAT, StoreManifest, read_names, read_store_manifest
from sct.storage.cpus import count_affinity

_MIN_THREADED_BYTES = 4 << 20
"""Smaller batches are copied before another thread wakes up."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StoredRegions:
    """Regions of one image, as read-only views: nothing is read from disk until it is used."""

    image_id: str
    features: Float16[np.ndarray, "regions features"]
    boxes: Float32[np.ndarray, "regions 4"]
    classes: UInt16[np.ndarray, " regions"]
    class_names: tuple[str | None, ...]
    scores: Float32[np.ndarray, " regions"]
    width: float | None
    """In pixels; None if unknown."""
    height: float | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RegionBatch:
    """Regions of several images as unpadded rows: image ``i`` has the rows ``offsets[i]`` to ``offsets[i + 1]``."""

    image_ids: tuple[str, ...]
    features: Float16[np.ndarray, "rows features"]
    boxes: Float32[np.ndarray, "rows 4"]
    classes: UInt16[np.ndarray, " rows"]
    scores: Float32[np.ndarray, " rows"]
    sizes: Float32[np.ndarray, "images 2"]
    """Width and height, NaN if unknown."""
    offsets: Int64[np.ndarray, " ends"]
    """One entry more than images."""


class RegionStore:
    """Reader of a finished store; open it with ``RegionStore.open``.

    It can be used after a fork and pickled; a copy maps the same files again.
    """

    def __init__(self, path: Path, manifest: StoreManifest) -> None:
        """Map the files of a folder; ``manifest`` comes from ``read_store_manifest``."""
        self.path = path
        self.feature_size = manifest.feature_size
        self.ids = read_names(path / "images.txt")
        self.class_names = read_names(path / "classes.txt")
        self._index = {image_id: position for position, image_id in enumerate(self.ids)}
        self._pool: ThreadPoolExecutor | None = None
        self._pool_pid = 0
        self._mapping = _map_file(path / "features.f16")
        self._features = _array(self._mapping, "<f2", self.feature_size)
        self._boxes = _array(_map_file(path / "boxes.f32"), "<f4", 4)
        self._classes = _array(_map_file(path / "classes.u16"), "<u2", 1)[:, 0]
        self._scores = _array(_map_file(path / "scores.f32"), "<f4", 1)[:, 0]
        self._sizes = _array(_map_file(path / "sizes.f32"), "<f4", 2)
        ends = _array(_map_file(path / "ends.u64"), "<u8", 1)[:, 0]
        self._offsets = np.concatenate([[0], ends.astype(np.int64)])
        if not len(self.ids) == len(self._index) == len(ends) or len(self.class_names) != manifest.classes:
            raise FORMAT.damaged(path, "numbers of images or classes disagree")
        if (np.diff(self._offsets) < 0).any() or self._offsets[-1] != len(self._features):
            raise FORMAT.damaged(path / "ends.u64", "it does not cover all regions")

    @classmethod
    def open(cls, path: str | Path) -> "RegionStore":
        """Open a finished store; unfinished builds, truncated copies and other versions are refused."""
        folder = Path(path)
        return cls(folder, read_store_manifest(folder))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path only; worker processes map the files themselves."""
        return type(self).open, (self.path,)

    def __len__(self) -> int:
        """Number of images."""
        return len(self.ids)

    def __contains__(self, image_id: object) -> bool:
        """Whether the image is in the store."""
        return image_id in self._index

    @property
    def num_regions(self) -> int:
        """Number of regions of all images."""
        return len(self._features)

    @property
    def max_regions(self) -> int:
        """Maximum number of regions per image."""
        return int(np.diff(self._offsets).max(initial=0))

    def image(self, image_id: str) -> StoredRegions:
        """Regions of one image, as views."""
        position = self._position(image_id)
        rows = slice(int(self._offsets[position]), int(self._offsets[position + 1]))
        width, height = (None if np.isnan(side) else float(side) for side in self._sizes[position])
        classes = self._classes[rows]
        if not ((classes < len(self.class_names)) | (classes == NO_CLASS)).all():
            raise FORMAT.damaged(self.path / "classes.u16", f"image {image_id!r} has classes out of range")
        return StoredRegions(
            image_id=image_id,
            features=self._features[rows],
            boxes=self._boxes[rows],
            classes=classes,
            class_names=tuple(None if index == NO_CLASS else self.class_names[index] for index in classes.tolist()),
            scores=self._scores[rows],
            width=width,
            height=height,
        )

    def regions(self, image_id: str) -> tuple[Region, ...]:
        """Regions of one image as records, without features."""
        stored = self.image(image_id)
        regions = []
        for number, (corners, class_name, score) in enumerate(
            zip(stored.boxes.tolist(), stored.class_names, stored.scores.tolist(), strict=True)
        ):
            try:
                box = Box.from_inclusive_corners(corners)
                regions.append(Region(box, class_name, None if np.isnan(score) else score))
            except InputError as error:
                raise InputError(f"region {number} of image {image_id!r} in {self.path}: {error}") from error
        return tuple(regions)

    def new_buffer(self, num_images: int) -> Float16[np.ndarray, "rows features"]:
        """Buffer for the features of any ``num_images`` images, to be reused as ``out`` of ``gather``."""
        return np.empty((num_images * self.max_regions, self.feature_size), dtype=np.float16)

    def gather(
        self, image_ids: Sequence[str], *, out: Float16[np.ndarray, "space features"] | None = None
    ) -> RegionBatch:
        """Copy the regions of several images into one flat batch, in the given order.

        With ``out``, ``features`` of the batch are its first rows, which the next call with the same ``out``
        overwrites. Half the time of a call without it is spent on clearing new memory, so loops should reuse a buffer.
        """
        positions = np.array([self._position(image_id) for image_id in image_ids], dtype=np.int64)
        starts, counts = self._offsets[positions], self._offsets[positions + 1] - self._offsets[positions]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        num_rows = int(offsets[-1])
        rows = np.arange(num_rows) + np.repeat(starts - offsets[:-1], counts)
        features = check_out(out, num_rows, self.feature_size)
        self._copy_features(features, starts, offsets)
        return RegionBatch(
            image_ids=tuple(image_ids),
            features=features,
            boxes=self._boxes[rows],
            classes=self._classes[rows],
            scores=self._scores[rows],
            sizes=self._sizes[positions],
            offsets=offsets,
        )

    def _position(self, image_id: str) -> int:
        try:
            return self._index[image_id]
        except KeyError:
            raise InputError(
                f"image {image_id!r} is not in {self.path}, which has {len(self)} images: "
                "build it again from a source that has the image"
            ) from None

    def _copy_features(
        self,
        target: Float16[np.ndarray, "rows features"],
        starts: Int64[np.ndarray, " images"],
        offsets: Int64[np.ndarray, " ends"],
    ) -> None:
        jobs = list(zip(starts.tolist(), offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))
        self._prefetch(jobs)

        def copy() -> None:
            while True:
                try:
                    start, first, last = jobs.pop()
                except IndexError:
                    return
                target[first:last] = self._features[start : start + last - first]

        # The caller copies too, and each free thread takes the next image: one that wakes up late delays nothing.
        num_threads = min(4, count_affinity()) - 1 if target.nbytes >= _MIN_THREADED_BYTES else 0
        futures = [self._threads().submit(copy) for _ in range(num_threads)]
        copy()
        for future in futures:
            if not future.cancel():
                future.result()

    def _threads(self) -> ThreadPoolExecutor:
        """Thread pool that is kept, as starting threads takes a third of a copy; a forked process starts its own."""
        if self._pool is None or self._pool_pid != os.getpid():
            self._pool, self._pool_pid = ThreadPoolExecutor(3, thread_name_prefix="regions"), os.getpid()
        return self._pool

    def _prefetch(self, jobs: list[tuple[int, int, int]]) -> None:
        """Ask the system to read all images of a batch ahead.

        14 times faster from a cold disk than page by page; half a millisecond per 100 images from memory.
        """
        if sys.platform == "win32" or self._mapping is None:
            return
        row_bytes = self.feature_size * 2
        for start, first, last in jobs:
            begin = start * row_bytes // mmap.PAGESIZE * mmap.PAGESIZE  # madvise needs the start of a page
            length = (start + last - first) * row_bytes - begin
            if length:
                self._mapping.madvise(mmap.MADV_WILLNEED, begin, length)


def check_out(
    out: Float16[np.ndarray, "space features"] | None, num_rows: int, feature_size: int
) -> Float16[np.ndarray, "rows features"]:
    """First rows of a buffer for features, or a new one; raises for a buffer that does not fit."""
    if out is None:
        return np.empty((num_rows, feature_size), dtype=np.float16)
    if out.dtype != np.float16 or out.shape[1:] != (feature_size,) or len(out) < num_rows:
        raise InputError(
            f"out is {out.dtype} {out.shape}: expected float16 with {feature_size} columns and at least "
            f"{num_rows} rows, as from new_buffer"
        )
    if not (out.flags.c_contiguous and out.flags.writeable):
        raise InputError("out is read-only or not contiguous: expected a buffer from new_buffer")
    return out[:num_rows]


def _map_file(path: Path) -> mmap.mmap | None:
    """Memory-map a file; None for an empty one, which cannot be mapped."""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else None


def _array(mapping: mmap.mmap | None, dtype: str, columns: int) -> np.ndarray:
    """Array over a mapping; slices of ``np.memmap`` cost several microseconds each."""
    return np.frombuffer(b"" if mapping is None else mapping, dtype=dtype).reshape(-1, columns)
