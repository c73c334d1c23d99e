"""Captioners that know no control are shown all regions of an image as one set."""

import numpy as np

from sct.data.examples import (
    MAX_REGIONS_PER_IMAGE,
    make_examples,
    whole_image_examples,
    whole_image_regions,
    whole_image_samples,
)
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.samples import make_samples
from sct.data.table import build_table, merge_tables
from sct.regions import Box, Region

CAPTION = Caption(
    "a dog and a cat", ("a", "dog", "and", "a", "cat"), (0, 0, None, 1, 1), (Chunk("dog", (0,)), Chunk("cat", (2, 1)))
)


def image(name: str, num_regions: int, best: int) -> AnnotatedImage:
    regions = tuple(
        Region(Box(0, 0, 1 + place, 9), "dog", 0.9 if place == best else 0.5) for place in range(num_regions)
    )
    return AnnotatedImage(
        image_id=name, split="train", width=200, height=9, regions=regions, captions=(CAPTION, CAPTION)
    )


TABLE, VOCABULARY = merge_tables(
    [build_table([image("few", 4, best=1), image("many", MAX_REGIONS_PER_IMAGE + 7, best=MAX_REGIONS_PER_IMAGE + 6)])]
)


def test_all_regions_are_shown_in_order_and_the_likeliest_where_they_are_too_many():
    assert whole_image_regions(TABLE, 0) == (0, 1, 2, 3)
    assert whole_image_regions(TABLE, 1) == (*range(MAX_REGIONS_PER_IMAGE - 1), MAX_REGIONS_PER_IMAGE + 6)


def test_samples_keep_their_captions():
    samples = make_samples(TABLE, "train")
    whole = whole_image_samples(TABLE, samples)
    assert [sample.control for sample in whole] == [(whole_image_regions(TABLE, 0),), (whole_image_regions(TABLE, 1),)]
    assert [sample.captions for sample in whole] == [sample.captions for sample in samples]


def test_examples_have_one_set_and_never_shift():
    examples = make_examples(TABLE, "train", VOCABULARY.with_min_count(1))
    whole = whole_image_examples(TABLE, examples)
    assert np.array_equal(whole.words, examples.words)
    assert not whole.slots.any()
    assert not whole.shifts.any()
    assert whole.num_slots.tolist() == [1, 1, 1, 1]
    assert whole.set_sizes[:, 0].tolist() == [4, 4, MAX_REGIONS_PER_IMAGE, MAX_REGIONS_PER_IMAGE]
    start, size = whole.set_starts[2, 0], whole.set_sizes[2, 0]
    rows = whole.members[start : start + size].tolist()
    assert rows == [4 + member for member in whole_image_regions(TABLE, 1)]
