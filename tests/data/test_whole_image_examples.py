"""Captioners that know no control are shown all regions of an image as one set."""

import numpy as np

from sct.data.examples import (
    MOST_REGIONS,
    all_regions,
    examples_of_whole_images,
    make_examples,
    samples_of_whole_images,
)
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.samples import samples_of
from sct.data.table import join, pack
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


TABLE, VOCABULARY = join([pack([image("few", 4, best=1), image("many", MOST_REGIONS + 7, best=MOST_REGIONS + 6)])])


def test_all_regions_are_shown_in_order_and_the_likeliest_where_they_are_too_many():
    assert all_regions(TABLE, 0) == (0, 1, 2, 3)
    assert all_regions(TABLE, 1) == (*range(MOST_REGIONS - 1), MOST_REGIONS + 6)


def test_samples_keep_their_captions():
    samples = samples_of(TABLE, "train")
    whole = samples_of_whole_images(TABLE, samples)
    assert [sample.control for sample in whole] == [(all_regions(TABLE, 0),), (all_regions(TABLE, 1),)]
    assert [sample.captions for sample in whole] == [sample.captions for sample in samples]


def test_examples_have_one_set_and_never_shift():
    examples = make_examples(TABLE, "train", VOCABULARY.cut(1))
    whole = examples_of_whole_images(TABLE, examples)
    assert np.array_equal(whole.words, examples.words)
    assert not whole.slots.any()
    assert not whole.shifts.any()
    assert whole.num_slots.tolist() == [1, 1, 1, 1]
    assert whole.set_sizes[:, 0].tolist() == [4, 4, MOST_REGIONS, MOST_REGIONS]
    start, size = whole.set_starts[2, 0], whole.set_sizes[2, 0]
    rows = whole.members[start : start + size].tolist()
    assert rows == [4 + member for member in all_regions(TABLE, 1)]
