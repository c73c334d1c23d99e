"""Defect of the authors' set evaluation, reproduced for their published scores (point 40 of the reference behaviour).

Their code captions all controls of an image together, in a table of ten slots each. To pad a control it writes its last
region set into the remaining slots of every control of the image. A shorter control thus overwrites the last sets of
the controls before it, and a longer one appends its last set to them. The order of the controls depends on their
features.
"""

from collections.abc import Sequence
from dataclasses import replace

from sct.data.features import Features
from sct.data.samples import MAX_REGIONS_PER_SET, RegionSets, Sample

REFERENCE_SLOTS = 10
"""Slots of a control in the authors' tables."""


def sort_by_feature_size(features: Features, samples: Sequence[Sample], *, first_members: bool = False) -> list[Sample]:
    """Sort the samples of each image as the authors do, by the L1 norms of their region features.

    ``first_members`` uses only the first region of each set, as for Flickr30k Entities.
    """
    by_image: dict[int, list[Sample]] = {}
    for sample in samples:
        by_image.setdefault(sample.image, []).append(sample)
    ordered: list[Sample] = []
    for image, group in by_image.items():
        found = features([image])
        norms = found.regions[int(found.first_row[0]) :].float().abs().sum(dim=1).tolist()
        width = 1 if first_members else MAX_REGIONS_PER_SET

        def key(sample: Sample, norms: list[float] = norms, width: int = width) -> list[list[float]]:
            rows = [[norms[member] for member in members[:width]] for members in sample.control[:REFERENCE_SLOTS]]
            return [row + [0.0] * (width - len(row)) for row in rows]

        ordered += sorted(group, key=key)
    return ordered


def overwrite_tails(samples: Sequence[Sample]) -> list[Sample]:
    """Replace controls by those that the authors' code captions; samples of an image are in the authors' order."""
    by_image: dict[int, list[int]] = {}
    for index, sample in enumerate(samples):
        by_image.setdefault(sample.image, []).append(index)
    overwritten = list(samples)
    for indices in by_image.values():
        slots: list[list[tuple[int, ...]]] = [[()] * REFERENCE_SLOTS for _ in indices]
        for row, index in enumerate(indices):
            control = samples[index].control[:REFERENCE_SLOTS]
            slots[row][: len(control)] = control
            for other in slots:
                other[len(control) :] = [control[-1]] * (REFERENCE_SLOTS - len(control))
        for row, index in enumerate(indices):
            overwritten[index] = replace(samples[index], control=_strip_repeated_tail(slots[row]))
    return overwritten


def _strip_repeated_tail(sets: Sequence[tuple[int, ...]]) -> RegionSets:
    """Drop repetitions of the last set: the authors' captioner stays on the last one anyway."""
    end = len(sets)
    while end > 1 and sets[end - 2] == sets[-1]:
        end -= 1
    return tuple(sets[:end])
