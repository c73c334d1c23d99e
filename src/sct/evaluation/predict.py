"""Captions of many samples, in batches across images."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from sct.captioner.captioner import Captioner, CaptionOptions
from sct.captioner.collate import collate_samples
from sct.captioner.grounded_caption import GroundedCaption
from sct.data.features import Features
from sct.data.samples import MAX_REGIONS_PER_IMAGE, MAX_REGIONS_PER_SET, RegionSets, Sample
from sct.data.table import Table
from sct.errors import InputError
from sct.models.inputs import ControlBatch
from sct.sorting import ControlSorter
from sct.sorting.batches import sorting_table

BATCH_SIZE = 200
_SORTED_AT_ONCE = 1000

Progress = Callable[[int, int | None], None]


@runtime_checkable
class SampleSorter(Protocol):
    """Puts region sets in order."""

    def __call__(self, images: Sequence[int], controls: Sequence[RegionSets]) -> list[list[int]]:
        """For each image and control the place of the set to speak of first, second, ..."""
        ...


def predict(
    captioner: Captioner,
    features: Features,
    samples: Sequence[Sample],
    *,
    options: CaptionOptions | None = None,
    batch_size: int = BATCH_SIZE,
    progress: Progress | None = None,
) -> list[GroundedCaption]:
    """The best caption of each sample."""
    found: dict[int, GroundedCaption] = {}
    max_members = MAX_REGIONS_PER_IMAGE if captioner.config.ignores_control else MAX_REGIONS_PER_SET
    for numbers in alike([sample.control for sample in samples], batch_size):
        some = [samples[number] for number in numbers]
        inputs = collate_samples(
            features, [sample.image for sample in some], [sample.control for sample in some], max_members=max_members
        )
        check_features(inputs, captioner)
        captions = captioner.caption_inputs(inputs, options)
        found |= {number: best for number, [best, *_] in zip(numbers, captions, strict=True)}
        if progress is not None:
            progress(len(found), len(samples))
    return [found[number] for number in range(len(samples))]


class DatasetSorter:
    """A sorter for controls of a dataset's images."""

    def __init__(self, sorter: ControlSorter, table: Table, features: Features) -> None:
        """``features`` are only looked at for a sorter that was trained with some."""
        self._sorter, self._table = sorter, table
        self._features = features if sorter.is_visual else None

    def __call__(self, images: Sequence[int], controls: Sequence[RegionSets]) -> list[list[int]]:
        """The order of each control; one of a single set is not asked about."""
        orders = [list(range(len(control))) for control in controls]
        several = [number for number, control in enumerate(controls) if len(control) > 1]
        for start in range(0, len(several), _SORTED_AT_ONCE):
            numbers = several[start : start + _SORTED_AT_ONCE]
            table = sorting_table(
                self._table,
                [images[number] for number in numbers],
                [controls[number] for number in numbers],
                self._sorter.vectors,
                mode=self._sorter.mode,
                features=self._features,
            )
            found = self._sorter.sorter.order(table.batch(np.arange(len(numbers))).inputs).lists()
            for number, order in zip(numbers, found, strict=True):
                orders[number] = order
        return orders


def sorted_samples(samples: Sequence[Sample], sorter: SampleSorter) -> list[Sample]:
    """The samples with their region sets in the order that a sorter finds."""
    if not samples:
        return []
    orders = sorter([sample.image for sample in samples], [sample.control for sample in samples])
    found = []
    for sample, order in zip(samples, orders, strict=True):
        if sorted(order) != list(range(len(sample.control))):
            raise InputError(f"a sorter put {len(sample.control)} region sets in the order {order}: expected each once")
        found.append(Sample(sample.image, tuple(sample.control[place] for place in order), sample.captions))
    return found


def alike(controls: Sequence[RegionSets], batch_size: int) -> Iterator[list[int]]:
    """Numbers of controls in batches of about one size: less padding, and fewer sizes to record on a GPU."""
    order = sorted(range(len(controls)), key=lambda number: (len(controls[number]), max(map(len, controls[number]))))
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def check_features(inputs: ControlBatch, captioner: Captioner) -> None:
    """Refuse features of another size than the captioner was trained with."""
    found, expected = inputs.regions.shape[1], captioner.config.feature_size
    if found != expected:
        raise InputError(
            f"the regions have features of {found} numbers: the bundle wants {expected}; give it its own kind"
        )
