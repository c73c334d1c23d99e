"""Where the features of a dataset's regions come from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sct.data.table import NO_CLASS, Table
from sct.errors import InputError
from sct.regions.store import RegionStore
from sct.vision.layout import LayoutEncoder


@dataclass(frozen=True, slots=True, eq=False)
class ImageFeatures:
    """Features of some images, on any device."""

    regions: Float[Tensor, "rows features"]
    """Of their regions, those of one image together and in the order of the dataset; others may be there too."""
    first_row: Int[np.ndarray, " images"]
    """Where the regions of each image begin."""
    image: Float[Tensor, "images features"]
    """Image descriptor of each."""


@runtime_checkable
class Features(Protocol):
    """Looks up features by the rows of images in a dataset."""

    def __call__(self, images: Sequence[int]) -> ImageFeatures:
        """Features of these images, which are all different."""
        ...


def make_features(
    table: Table, store: RegionStore | None, encoder: LayoutEncoder | None, *, skip_zeros: bool = False
) -> Features:
    """The features that a captioner was trained with, for a dataset: from a store, or by the bundle's encoder.

    ``skip_zeros``: like the authors' code, leave rows of zeros out of the image descriptor.
    """
    if store is not None:
        return StoreFeatures(store, table, skip_zeros=skip_zeros)
    if encoder is not None:
        return LayoutFeatures(encoder, table)
    raise InputError(
        "the bundle has no encoder of regions, and no features were given: name the region store that the dataset was "
        "prepared with (--features)"
    )


class StoreFeatures:
    """Features of the detections that a dataset was made with, from their region store."""

    def __init__(self, store: RegionStore, table: Table, *, skip_zeros: bool = False) -> None:
        """``skip_zeros``: like the authors' code, leave rows of zeros out of the image descriptor."""
        self._store, self._table, self._skip_zeros = store, table, skip_zeros

    def __call__(self, images: Sequence[int]) -> ImageFeatures:
        """Read them from disk."""
        batch = self._store.gather([self._table.image_ids[image] for image in images])
        known = np.diff(self._table.columns["region_offsets"].astype(np.int64))[list(images)]
        for image, found, expected in zip(images, np.diff(batch.offsets).tolist(), known.tolist(), strict=True):
            if found != expected:
                raise InputError(
                    f"image {self._table.image_ids[image]!r} has {expected} regions in the dataset and {found} in "
                    f"{self._store.path}: expected the store that the dataset was prepared with"
                )
        regions = torch.from_numpy(batch.features.astype(np.float32))
        return ImageFeatures(regions, batch.offsets[:-1], self._descriptors(regions, batch.offsets))

    def _descriptors(
        self, regions: Float[Tensor, "rows features"], offsets: Int[np.ndarray, " ends"]
    ) -> Float[Tensor, "images features"]:
        counted = regions.any(dim=1) if self._skip_zeros else torch.ones(len(regions), dtype=torch.bool)
        return image_descriptors(regions, offsets, counted)


class LayoutFeatures:
    """Features that class and box tell, for datasets without images."""

    def __init__(self, encoder: LayoutEncoder, table: Table) -> None:
        """Refuse a dataset with classes that the encoder was not made for."""
        self._encoder, self._table = encoder, table
        self._numbers = torch.cat([encoder.numbers_of(table.classes), torch.tensor([-1])])

    @torch.inference_mode()
    def __call__(self, images: Sequence[int]) -> ImageFeatures:
        """Compute them where the encoder is."""
        columns = self._table.columns
        ends = columns["region_offsets"].astype(np.int64)
        counts = ends[np.asarray(images) + 1] - ends[np.asarray(images)]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        rows = np.repeat(ends[np.asarray(images)] - offsets[:-1], counts) + np.arange(offsets[-1])
        numbers = columns["region_class"][rows].astype(np.int64)
        classes = self._numbers[np.where(numbers == NO_CLASS, len(self._numbers) - 1, numbers)]
        sizes = np.repeat(columns["image_size"][list(images)], counts, axis=0)
        boxes = torch.from_numpy(columns["region_box"][rows] / np.concatenate([sizes, sizes], axis=1))
        home = self._encoder.class_embedding.device
        regions = self._encoder(classes.to(home), boxes.to(home))
        every = torch.ones(len(regions), dtype=torch.bool, device=home)
        return ImageFeatures(regions, offsets[:-1], image_descriptors(regions, offsets, every))


def image_descriptors(
    regions: Float[Tensor, "rows features"], offsets: Int[np.ndarray, " ends"], counted: Tensor
) -> Float[Tensor, "images features"]:
    """Mean over the counted regions of each image, which lie end to end; zeros where there are none."""
    image = torch.repeat_interleave(torch.from_numpy(np.diff(offsets))).to(regions.device)
    weights = counted.to(regions.dtype)
    sums = torch.zeros(len(offsets) - 1, regions.shape[1], device=regions.device)
    sums.index_add_(0, image, regions * weights[:, None])
    counts = torch.zeros(len(offsets) - 1, device=regions.device).index_add_(0, image, weights)
    return sums / counts.clamp(min=1)[:, None]
