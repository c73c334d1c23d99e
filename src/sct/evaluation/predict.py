"""Captions of many samples, in batches across images."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import torch

from sct.captioning import Captioner, CaptionOptions
from sct.data.features import Features
from sct.data.samples import MOST_MEMBERS, RegionSets, Sample
from sct.errors import InputError
from sct.grounded_caption import GroundedCaption
from sct.model.inputs import ControlInputs, pack_controls

BATCH_SIZE = 200

Progress = Callable[[int, int | None], None]


@runtime_checkable
class ControlSorter(Protocol):
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
    for numbers in alike([sample.control for sample in samples], batch_size):
        inputs = pack(features, [samples[number].image for number in numbers], [samples[n].control for n in numbers])
        check_features(inputs, captioner)
        captions = captioner.caption_inputs(inputs, options)
        found |= {number: best for number, [best, *_] in zip(numbers, captions, strict=True)}
        if progress is not None:
            progress(len(found), len(samples))
    return [found[number] for number in range(len(samples))]


def sorted_samples(samples: Sequence[Sample], sorter: ControlSorter) -> list[Sample]:
    """The samples with their region sets in the order that a sorter finds."""
    if not samples:
        return []
    orders = sorter([sample.image for sample in samples], [sample.control for sample in samples])
    found = []
    for sample, order in zip(samples, orders, strict=True):
        if sorted(order) != list(range(len(sample.control))):
            raise InputError(f"a sorter put {len(sample.control)} region sets in the order {order}: wanted each once")
        found.append(Sample(sample.image, tuple(sample.control[place] for place in order), sample.captions))
    return found


def alike(controls: Sequence[RegionSets], batch_size: int) -> Iterator[list[int]]:
    """Numbers of controls in batches of about one size: less padding, and fewer sizes to record on a GPU."""
    order = sorted(range(len(controls)), key=lambda number: (len(controls[number]), max(map(len, controls[number]))))
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def pack(features: Features, images: Sequence[int], controls: Sequence[RegionSets]) -> ControlInputs:
    """Lay controls out for a captioner; only the regions that they name are taken along, each once."""
    different = list(dict.fromkeys(images))
    known = features(different)
    place = {image: number for number, image in enumerate(different)}
    places = [place[image] for image in images]
    row_of: dict[int, int] = {}
    packed = []
    for number, control in zip(places, controls, strict=True):
        first = int(known.first_row[number])
        packed.append(
            [
                [row_of.setdefault(first + member, len(row_of)) for member in members[:MOST_MEMBERS]]
                for members in control
            ]
        )
    home = known.regions.device
    rows = torch.tensor(list(row_of), dtype=torch.long, device=home)
    return pack_controls(known.regions[rows], known.image[torch.tensor(places, device=home)], packed)


def check_features(inputs: ControlInputs, captioner: Captioner) -> None:
    """Refuse features of another size than the captioner was trained with."""
    found, wanted = inputs.regions.shape[1], captioner.config.feature_size
    if found != wanted:
        raise InputError(
            f"the regions have features of {found} numbers: the bundle wants {wanted}; give it its own kind"
        )
