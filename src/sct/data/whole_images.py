"""What a captioner that knows no control looks at: all regions of an image, as one region set."""

from dataclasses import replace

import numpy as np

from sct.data.examples import Examples
from sct.data.samples import Sample
from sct.data.table import Table

MOST_REGIONS = 100
"""Most regions of an image that such a captioner looks at, the likeliest ones."""


def all_regions(table: Table, image: int) -> tuple[int, ...]:
    """The regions of an image in their order; the likeliest where they are too many."""
    first, last = table.columns["image_region"][image : image + 2].tolist()
    scores = np.nan_to_num(table.columns["region_score"][first:last].astype(np.float32))
    return tuple(sorted(np.argsort(-scores, kind="stable")[:MOST_REGIONS].tolist()))


def samples_of_whole_images(table: Table, samples: list[Sample]) -> list[Sample]:
    """The same samples, with the whole image for their control."""
    return [replace(sample, control=(all_regions(table, sample.image),)) for sample in samples]


def examples_of_whole_images(table: Table, examples: Examples) -> Examples:
    """The same captions, each of the whole image, with nothing to shift to."""
    first_region = table.columns["image_region"].tolist()
    images = np.unique(examples.image)
    sets = [first_region[image] + np.array(all_regions(table, image), np.int32) for image in images.tolist()]
    sizes = np.array([len(members) for members in sets])
    starts = np.cumsum(sizes) - sizes
    place = np.searchsorted(images, examples.image)
    return examples.with_one_set(starts[place], sizes[place], np.concatenate([*sets, np.zeros(0, np.int32)]))
