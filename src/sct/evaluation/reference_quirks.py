"""A defect of the authors' set evaluation, kept for their published scores (point 40 of the reference behaviour).

They caption all controls of an image together, in a table of ten places each. When they fill up the places after a
control's last region set, they write that set into these places of every control. So a control with fewer sets replaces
the last sets of those before it, and one with more adds its last set to them; which controls come before is told by
their features.
"""

from collections.abc import Sequence

from sct.data.features import Features
from sct.data.samples import MOST_MEMBERS, RegionSets, Sample

REFERENCE_SLOTS = 10
"""Places of a control in the authors' tables."""


def in_reference_order(features: Features, samples: Sequence[Sample], *, first_members: bool = False) -> list[Sample]:
    """The samples of each image as the authors order them: by how large the features of their regions are.

    For Flickr30k Entities they look at the first region of each set alone (``first_members``).
    """
    by_image: dict[int, list[Sample]] = {}
    for sample in samples:
        by_image.setdefault(sample.image, []).append(sample)
    found: list[Sample] = []
    for image, group in by_image.items():
        known = features([image])
        sizes = known.regions[int(known.first_row[0]) :].float().abs().sum(dim=1).tolist()
        width = 1 if first_members else MOST_MEMBERS

        def key(sample: Sample, sizes: list[float] = sizes, width: int = width) -> list[list[float]]:
            rows = [[sizes[member] for member in members[:width]] for members in sample.control[:REFERENCE_SLOTS]]
            return [row + [0.0] * (width - len(row)) for row in rows]

        found += sorted(group, key=key)
    return found


def with_overwritten_tails(samples: Sequence[Sample]) -> list[Sample]:
    """The samples with the controls that the authors' code captions instead, where each image's come in this order."""
    by_image: dict[int, list[int]] = {}
    for number, sample in enumerate(samples):
        by_image.setdefault(sample.image, []).append(number)
    found = list(samples)
    for numbers in by_image.values():
        slots: list[list[tuple[int, ...]]] = [[()] * REFERENCE_SLOTS for _ in numbers]
        for place, number in enumerate(numbers):
            control = samples[number].control[:REFERENCE_SLOTS]
            slots[place][: len(control)] = control
            for row in slots:
                row[len(control) :] = [control[-1]] * (REFERENCE_SLOTS - len(control))
        for place, number in enumerate(numbers):
            found[number] = Sample(samples[number].image, _without_repeated_end(slots[place]), samples[number].captions)
    return found


def _without_repeated_end(sets: Sequence[tuple[int, ...]]) -> RegionSets:
    """Leave out what repeats the last set at the end: the authors' captioner stays on the last one."""
    end = len(sets)
    while end > 1 and sets[end - 2] == sets[-1]:
        end -= 1
    return tuple(sets[:end])
