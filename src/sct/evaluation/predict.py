"""Batched captioning of the samples of a dataset, and sorting of their region sets."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from sct.captioner.captioner import Captioner
from sct.captioner.collate import collate_samples
from sct.captioner.grounded_caption import GroundedCaption
from sct.captioner.requests import CaptionOptions
from sct.data.features import Features
from sct.data.prepare import ProgressCallback
from sct.data.samples import MAX_REGIONS_PER_SET, MAX_WHOLE_IMAGE_REGIONS, RegionSets, Sample
from sct.data.table import Table
from sct.errors import InputError
from sct.evaluation.config import BATCH_SIZE, PLAIN_SEARCH
from sct.models.inputs import ControlBatch
from sct.sorting.batches import table_from_dataset
from sct.sorting.sorter import ControlSorter

_SORT_BATCH_SIZE = 1000


@runtime_checkable
class SampleSorter(Protocol):
    """Orders the region sets of samples."""

    def __call__(self, images: Sequence[int], controls: Sequence[RegionSets]) -> list[list[int]]:
        """Return a permutation of the region sets of each control, or of as many as it can order, the first ones."""
        ...


def predict(
    captioner: Captioner,
    features: Features,
    samples: Sequence[Sample],
    *,
    options: CaptionOptions = PLAIN_SEARCH,
    batch_size: int = BATCH_SIZE,
    progress: ProgressCallback | None = None,
) -> list[GroundedCaption]:
    """Caption each sample."""
    captions: dict[int, GroundedCaption] = {}
    for indices in length_buckets([sample.control for sample in samples], batch_size):
        batch = [samples[index] for index in indices]
        inputs = collate(captioner, features, [sample.image for sample in batch], [sample.control for sample in batch])
        n_best = captioner.caption_control_batch(inputs, options)
        captions |= {index: best for index, [best, *_] in zip(indices, n_best, strict=True)}
        if progress is not None:
            progress(len(captions), len(samples))
    return [captions[index] for index in range(len(samples))]


def length_buckets(controls: Sequence[RegionSets], batch_size: int) -> Iterator[list[int]]:
    """Batch the indices of controls of similar size: less padding, and fewer shapes to capture as CUDA graphs."""
    order = sorted(range(len(controls)), key=lambda index: (len(controls[index]), max(map(len, controls[index]))))
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def collate(
    captioner: Captioner, features: Features, images: Sequence[int], controls: Sequence[RegionSets]
) -> ControlBatch:
    """Collate controls of a dataset's images; raises if the features do not fit the captioner."""
    max_members = MAX_WHOLE_IMAGE_REGIONS if captioner.config.ignores_control else MAX_REGIONS_PER_SET
    batch = collate_samples(features, images, controls, max_members=max_members)
    found, expected = batch.regions.shape[1], captioner.config.feature_size
    if found != expected:
        raise InputError(
            f"got region features of size {found}, the bundle expects {expected}: use the features that it was trained "
            "with"
        )
    return batch


class DatasetSorter:
    """Sorter for controls of a dataset's images."""

    def __init__(self, sorter: ControlSorter, table: Table, features: Features) -> None:
        """``features`` are read only if the sorter was trained with features."""
        self._sorter, self._table = sorter, table
        self._features = features if sorter.is_visual else None

    def __call__(self, images: Sequence[int], controls: Sequence[RegionSets]) -> list[list[int]]:
        """Return a permutation of the region sets of each control, of the first ``max_sets`` as the authors' code does.

        Single sets need no sorter.
        """
        controls = [control[: self._sorter.max_sets] for control in controls]
        orders = [list(range(len(control))) for control in controls]
        unsorted = [index for index, control in enumerate(controls) if len(control) > 1]
        for start in range(0, len(unsorted), _SORT_BATCH_SIZE):
            indices = unsorted[start : start + _SORT_BATCH_SIZE]
            table = table_from_dataset(
                self._table,
                [images[index] for index in indices],
                [controls[index] for index in indices],
                self._sorter.vectors,
                mode=self._sorter.mode,
                features=self._features,
            )
            permutations = self._sorter.sorter.order(table.inputs()).lists()
            for index, order in zip(indices, permutations, strict=True):
                orders[index] = order
        return orders


def sort_samples(samples: Sequence[Sample], sorter: SampleSorter) -> list[Sample]:
    """Reorder the region sets of each sample; those that the sorter leaves out are dropped and counted."""
    if not samples:
        return []
    orders = sorter([sample.image for sample in samples], [sample.control for sample in samples])
    ordered = []
    for sample, order in zip(samples, orders, strict=True):
        num_dropped = len(sample.control) - len(order)
        if sorted(order) != list(range(len(order))) or num_dropped < 0 or not order:
            raise InputError(f"got order {order} of {len(sample.control)} region sets, expected each index once")
        control = tuple(sample.control[index] for index in order)
        ordered.append(replace(sample, control=control, num_dropped_sets=num_dropped))
    return ordered
