"""Features of a dataset's regions, by image row: from a region store, from classes and boxes, or cached."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sct.data.table import Table
from sct.errors import InputError
from sct.regions import Region
from sct.regions.records import NO_CLASS
from sct.regions.sharded_store import AnyRegionStore
from sct.vision.layout import LayoutEncoder


@dataclass(frozen=True, slots=True, eq=False)
class ImageFeatures:
    """Features of several images, on any device."""

    regions: Float[Tensor, "rows features"]
    """Region features; those of one image are contiguous and in the order of the dataset. May have other rows too."""
    first_row: Int[np.ndarray, " images"]
    """Row of the first region of each image."""
    image: Float[Tensor, "images features"]
    """Image descriptors."""


@runtime_checkable
class Features(Protocol):
    """Returns features by the rows of images in a dataset."""

    def __call__(self, images: Sequence[int]) -> ImageFeatures:
        """Return the features of distinct images."""
        ...


def make_features(
    table: Table, store: AnyRegionStore | None, encoder: LayoutEncoder | None, *, skip_zeros: bool = False
) -> Features:
    """Return the features of a dataset from a region store if given, else from the bundle's layout encoder.

    ``skip_zeros`` excludes all-zero rows from the image descriptor, as in the authors' code.
    """
    if store is not None:
        return StoreFeatures(store, table, skip_zeros=skip_zeros)
    if encoder is not None:
        return LayoutFeatures(encoder, table)
    raise InputError(
        "the bundle has no layout encoder and no features were given: give the region store that the dataset was "
        "prepared with (--features)"
    )


class StoreFeatures:
    """Features of a dataset's detections, read from their region store."""

    def __init__(self, store: AnyRegionStore, table: Table, *, skip_zeros: bool = False) -> None:
        """``skip_zeros`` excludes all-zero rows from the image descriptor, as in the authors' code."""
        self._store, self._table, self._skip_zeros = store, table, skip_zeros

    def __call__(self, images: Sequence[int]) -> ImageFeatures:
        """Read features from disk."""
        batch = self._store.gather([self._table.image_ids[image] for image in images])
        expected_counts = np.diff(self._table.columns["region_offsets"].astype(np.int64))[list(images)]
        counts = np.diff(batch.offsets)
        for image, found, expected in zip(images, counts.tolist(), expected_counts.tolist(), strict=True):
            if found != expected:
                raise InputError(
                    f"image {self._table.image_ids[image]!r} has {expected} regions in the dataset and {found} in "
                    f"{self._store.path}: expected the store that the dataset was prepared with"
                )
        regions = torch.from_numpy(batch.features.astype(np.float32))
        mask = regions.any(dim=1) if self._skip_zeros else torch.ones(len(regions), dtype=torch.bool)
        return ImageFeatures(regions, batch.offsets[:-1], image_descriptors(regions, batch.offsets, mask))


class LayoutFeatures:
    """Features computed from class and box of each region, for datasets without images."""

    def __init__(self, encoder: LayoutEncoder, table: Table) -> None:
        """Raise if the dataset has a class that the encoder does not know."""
        self._encoder, self._table = encoder, table
        self._class_ids = torch.cat([encoder.class_ids(table.classes), torch.tensor([-1])])

    @torch.inference_mode()
    def __call__(self, images: Sequence[int]) -> ImageFeatures:
        """Compute features on the encoder's device."""
        columns = self._table.columns
        first = columns["region_offsets"].astype(np.int64)
        counts = np.diff(first)[np.asarray(images)]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        rows = np.repeat(first[np.asarray(images)] - offsets[:-1], counts) + np.arange(offsets[-1])
        table_ids = columns["region_class"][rows].astype(np.int64)
        class_ids = self._class_ids[np.where(table_ids == NO_CLASS, len(self._class_ids) - 1, table_ids)]
        sizes = np.repeat(columns["image_size"][list(images)], counts, axis=0)
        boxes = torch.from_numpy(columns["region_box"][rows] / np.concatenate([sizes, sizes], axis=1))
        device = self._encoder.class_embedding.device
        regions = self._encoder(class_ids.to(device), boxes.to(device))
        mask = torch.ones(len(regions), dtype=torch.bool, device=device)
        return ImageFeatures(regions, offsets[:-1], image_descriptors(regions, offsets, mask))


class CachedFeatures:
    """Features of some images of a dataset, kept in memory."""

    def __init__(self, features: ImageFeatures, images: Sequence[int]) -> None:
        """``features`` are those of ``images``, in the same order."""
        self._features = features
        self._index = {image: index for index, image in enumerate(images)}

    @classmethod
    def from_regions(cls, images: Sequence[Sequence[Region]], descriptors: Sequence[np.ndarray]) -> "CachedFeatures":
        """Collect the features of the regions of all images of a dataset."""
        regions = np.stack([np.asarray(region.feature, np.float32) for regions in images for region in regions])
        first_row = np.cumsum([0, *map(len, images)])[:-1]
        image = torch.from_numpy(np.stack(descriptors).astype(np.float32))
        return cls(ImageFeatures(torch.from_numpy(regions), first_row, image), range(len(images)))

    def __call__(self, images: Sequence[int]) -> ImageFeatures:
        """Look up features."""
        indices = [self._index[image] for image in images]
        features = self._features
        return ImageFeatures(features.regions, features.first_row[indices], features.image[indices])


def image_descriptors(
    regions: Float[Tensor, "rows features"], offsets: Int[np.ndarray, " ends"], mask: Bool[Tensor, " rows"]
) -> Float[Tensor, "images features"]:
    """Average the unmasked regions of each image; zeros for an image without any."""
    image = torch.repeat_interleave(torch.from_numpy(np.diff(offsets))).to(regions.device)
    weights = mask.to(regions.dtype)
    sums = torch.zeros(len(offsets) - 1, regions.shape[1], device=regions.device)
    sums.index_add_(0, image, regions * weights[:, None])
    counts = torch.zeros(len(offsets) - 1, device=regions.device).index_add_(0, image, weights)
    return sums / counts.clamp(min=1)[:, None]
