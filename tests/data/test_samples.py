"""Grouping of captions by image and control."""

import subprocess
import sys

import pytest

from sct.data.index import caption_text
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.samples import (
    MAX_WHOLE_IMAGE_REGIONS,
    image_region_sets,
    make_samples,
    sort_region_sets,
    top_scoring_regions,
    whole_image_regions,
    whole_image_samples,
)
from sct.data.table import build_table
from sct.errors import InputError
from sct.regions import Box, Region

DOG, CAT, PIGS = Chunk("dog", (0,)), Chunk("cat", (1,)), Chunk("pig", (2, 3))
REGIONS = tuple(
    Region(Box(left, 0, left + 9, 9), name, score)
    for left, name, score in ((50, "dog", 0.5), (20, "cat", 0.9), (30, "pig", 0.7), (10, "pig", None))
)


def caption(*chunks, labels=None):
    """A caption with one word per chunk, unless labels are given."""
    labels = tuple(range(len(chunks))) if labels is None else labels
    return Caption(f"caption of {len(chunks)}", ("word",) * len(labels), labels, chunks)


def image(*captions, image_id="1", split="val", regions=REGIONS):
    return AnnotatedImage(image_id=image_id, split=split, width=99, height=99, regions=regions, captions=captions)


def grouped(control, *captions):
    return [
        (sample.control, sample.captions) for sample in make_samples(build_table([image(*captions)]), "val", control)
    ]


@pytest.mark.parametrize(
    ("captions", "sequences", "sets"),
    [
        pytest.param([], [], [], id="no captions"),
        pytest.param([caption()], [], [], id="no chunk"),
        pytest.param([caption(DOG, Chunk(None, ()))], [], [], id="a chunk without a region"),
        pytest.param([caption(DOG, CAT, labels=(0, 1) * 128)], [], [], id="256 mentions of two chunks"),
        pytest.param([caption(DOG)], [(((0,),), (0,))], [(((0,),), (0,))], id="one"),
        pytest.param(
            [caption(DOG, CAT), caption(CAT, DOG), caption(DOG, CAT)],
            [(((0,), (1,)), (0, 2)), (((1,), (0,)), (1,))],
            [(((1,), (0,)), (0, 1, 2))],
            id="sequences are ordered, sets are sorted by class",
        ),
        pytest.param(
            [caption(Chunk("pig", (3, 2))), caption(PIGS)],
            [(((2, 3),), (0, 1))],
            [(((2, 3),), (0, 1))],
            id="the order of members is ignored",
        ),
        pytest.param(
            [caption(DOG, CAT, DOG), caption(CAT, DOG)],
            [(((0,), (1,), (0,)), (0,)), (((1,), (0,)), (1,))],
            [(((1,), (0,)), (0, 1))],
            id="repeated in a sequence, not in a set",
        ),
        pytest.param(
            [caption(DOG, labels=(0, 0, None, 0))],
            [(((0,), (0,)), (0,))],
            [(((0,),), (0,))],
            id="two mentions of one chunk",
        ),
    ],
)
def test_captions_with_equal_controls_share_a_sample(captions, sequences, sets):
    assert grouped("sequence", *captions) == sequences
    assert grouped("set", *captions) == sets


def test_without_control_an_image_is_one_sample_of_its_top_scoring_regions():
    assert grouped("none", caption(DOG), caption(CAT, DOG)) == [(((0, 1, 2, 3),), (0, 1))]
    many = tuple(Region(Box(0, 0, 9, 9), "dog", index / 64) for index in range(30))
    table = build_table([image(caption(DOG), regions=many)])
    assert top_scoring_regions(table, 0) == tuple(range(10, 30))


def test_images_do_not_share_samples():
    table = build_table([image(caption(DOG)), image(caption(DOG), image_id="2")])
    assert [(sample.image, sample.captions) for sample in make_samples(table, "val")] == [(0, (0,)), (1, (1,))]


def test_captions_of_other_splits_or_with_unassociated_chunks_are_dropped():
    gap = Chunk(None, ())
    table = build_table([image(caption(DOG), split="train"), image(caption(CAT), caption(CAT, gap), image_id="2")])
    assert [sample.captions for sample in make_samples(table, "val")] == [(1,)]
    # Captions with an unassociated chunk are used in training, but have no control.
    table = build_table([image(caption(DOG, gap), caption(CAT), split="train")])
    assert [sample.captions for sample in make_samples(table, "train")] == [(1,)]


WHOLE, GAP = (0, 1, 2, 3), Chunk(None, ())


@pytest.mark.parametrize(
    ("captions", "sets"),
    [
        pytest.param([caption()], (WHOLE,), id="no chunk"),
        pytest.param([caption(DOG, CAT), caption(CAT, PIGS, CAT)], ((1,), (0,), (2, 3)), id="no duplicates"),
        pytest.param([caption(DOG, GAP), caption(GAP)], ((0,), WHOLE), id="two unassociated chunks"),
        pytest.param(
            [caption(Chunk("all", WHOLE), GAP)], (WHOLE, WHOLE), id="an unassociated chunk and a chunk of all regions"
        ),
    ],
)
def test_image_region_sets_of_all_captions(captions, sets):
    other = image(caption(DOG), image_id="2", split="train")
    assert image_region_sets(build_table([other, image(*captions)]), "val") == {1: sets}


def test_images_without_regions_or_captions_have_no_region_sets():
    assert image_region_sets(build_table([image(caption(GAP), regions=()), image(image_id="2")]), "val") == {}


def test_sorted_region_sets_do_not_depend_on_their_order():
    table = build_table([image(caption(DOG))])
    assert (
        sort_region_sets(table, 0, ((2,), (0,), (3,)))
        == sort_region_sets(table, 0, ((3,), (2,), (0,)))
        == ((0,), (3,), (2,))
    )


def test_caption_text_is_unchanged():
    table = build_table([image(caption(DOG), Caption("Ein Hund 🐕 läuft .", ("a",), (0,), (DOG,)))])
    assert caption_text(table, 1) == "Ein Hund 🐕 läuft ."


def test_whole_image_samples_keep_their_captions():
    regions = tuple(Region(Box(0, 0, 9, 9), "dog", 0.5) for _ in range(MAX_WHOLE_IMAGE_REGIONS + 6))
    many = (*regions, Region(Box(0, 0, 9, 9), "dog", 0.9))
    table = build_table([image(caption(DOG)), image(caption(DOG), image_id="2", regions=many)])
    samples = make_samples(table, "val")
    whole = whole_image_samples(table, samples)
    assert whole_image_regions(table, 0) == (0, 1, 2, 3)
    assert whole_image_regions(table, 1) == (*range(MAX_WHOLE_IMAGE_REGIONS - 1), MAX_WHOLE_IMAGE_REGIONS + 6)
    assert [sample.control for sample in whole] == [(whole_image_regions(table, row),) for row in (0, 1)]
    assert [sample.captions for sample in whole] == [sample.captions for sample in samples]


@pytest.mark.parametrize(
    ("split", "control", "message"),
    [
        pytest.param("test", "sequence", "the dataset has no split 'test': expected one of val", id="split"),
        pytest.param("val", "order", "got control 'order', expected one of sequence, set, none", id="control"),
    ],
)
def test_an_unknown_split_or_control_is_an_error(split, control, message):
    # In a subprocess: here beartype would reject the control before the function does.
    code = (
        "from sct.data.records import *\nfrom sct.data.samples import make_samples\n"
        "from sct.data.table import build_table\n"
        "image = AnnotatedImage(image_id='1', split='val', width=9, height=9, regions=(), captions=())\n"
        f"make_samples(build_table([image]), {split!r}, {control!r})"
    )
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"{InputError.__name__}: {message}" in failed.stderr
