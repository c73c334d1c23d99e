"""Grouping captions by image and control, on tables made by hand."""

import pytest

from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.index import caption_text
from sct.data.samples import image_region_sets, make_samples, sort_region_sets, top_scoring_regions
from sct.data.table import build_table
from sct.errors import InputError
from sct.regions import Box, Region

DOG, CAT, PIGS = Chunk("dog", (0,)), Chunk("cat", (1,)), Chunk("pig", (2, 3))
REGIONS = tuple(
    Region(Box(left, 0, left + 9, 9), name, score)
    for left, name, score in ((50, "dog", 0.5), (20, "cat", 0.9), (30, "pig", 0.7), (10, "pig", None))
)


def caption(*chunks, labels=None):
    """A word for each chunk, unless labels tell otherwise."""
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
        pytest.param([caption(DOG)], [(((0,),), (0,))], [(((0,),), (0,))], id="one"),
        pytest.param(
            [caption(DOG, CAT), caption(CAT, DOG), caption(DOG, CAT)],
            [(((0,), (1,)), (0, 2)), (((1,), (0,)), (1,))],
            [(((1,), (0,)), (0, 1, 2))],
            id="order counts in a sequence, and class names order a set",
        ),
        pytest.param(
            [caption(Chunk("pig", (3, 2))), caption(PIGS)],
            [(((2, 3),), (0, 1))],
            [(((2, 3),), (0, 1))],
            id="the order of members counts in neither",
        ),
        pytest.param(
            [caption(DOG, CAT, DOG), caption(CAT, DOG)],
            [(((0,), (1,), (0,)), (0,)), (((1,), (0,)), (1,))],
            [(((1,), (0,)), (0, 1))],
            id="named twice is twice in a sequence and once in a set",
        ),
        pytest.param(
            [caption(DOG, labels=(0, 0, None, 0))],
            [(((0,), (0,)), (0,))],
            [(((0,),), (0,))],
            id="words between two mentions of one chunk part them",
        ),
    ],
)
def test_captions_share_a_sample_where_they_share_the_control(captions, sequences, sets):
    assert grouped("sequence", *captions) == sequences
    assert grouped("set", *captions) == sets


def test_without_control_an_image_is_one_sample_of_its_likeliest_regions():
    assert grouped("none", caption(DOG), caption(CAT, DOG)) == [(((0, 1, 2, 3),), (0, 1))]
    many = tuple(Region(Box(0, 0, 9, 9), "dog", place / 64) for place in range(30))
    table = build_table([image(caption(DOG), regions=many)])
    assert top_scoring_regions(table, 0) == tuple(range(10, 30))


def test_images_never_share_a_sample():
    table = build_table([image(caption(DOG)), image(caption(DOG), image_id="2")])
    assert [(sample.image, sample.captions) for sample in make_samples(table, "val")] == [(0, (0,)), (1, (1,))]


def test_only_captions_of_the_split_with_regions_throughout_count():
    gap = Chunk(None, ())
    table = build_table([image(caption(DOG), split="train"), image(caption(CAT), caption(CAT, gap), image_id="2")])
    assert [sample.captions for sample in make_samples(table, "val")] == [(1,)]
    # In training a caption with a gap is of use, but it has no control.
    table = build_table([image(caption(DOG, gap), caption(CAT), split="train")])
    assert [sample.captions for sample in make_samples(table, "train")] == [(1,)]


WHOLE, GAP = (0, 1, 2, 3), Chunk(None, ())


@pytest.mark.parametrize(
    ("captions", "sets"),
    [
        pytest.param([caption()], (WHOLE,), id="no chunk"),
        pytest.param([caption(DOG, CAT), caption(CAT, PIGS, CAT)], ((1,), (0,), (2, 3)), id="each once"),
        pytest.param([caption(DOG, GAP), caption(GAP)], ((0,), WHOLE), id="a chunk without a region, twice"),
        pytest.param(
            [caption(Chunk("all", WHOLE), GAP)], (WHOLE, WHOLE), id="a chunk without one beside a chunk of all regions"
        ),
    ],
)
def test_an_image_has_the_sets_of_all_its_captions(captions, sets):
    other = image(caption(DOG), image_id="2", split="train")
    assert image_region_sets(build_table([other, image(*captions)]), "val") == {1: sets}


def test_images_without_a_region_or_a_caption_are_left_out():
    assert image_region_sets(build_table([image(caption(GAP), regions=()), image(image_id="2")]), "val") == {}


def test_the_order_of_a_set_tells_nothing_of_captions():
    table = build_table([image(caption(DOG))])
    assert (
        sort_region_sets(table, 0, ((2,), (0,), (3,)))
        == sort_region_sets(table, 0, ((3,), (2,), (0,)))
        == ((0,), (3,), (2,))
    )


def test_texts_come_as_they_were_written():
    table = build_table([image(caption(DOG), Caption("Ein Hund 🐕 läuft .", ("a",), (0,), (DOG,)))])
    assert caption_text(table, 1) == "Ein Hund 🐕 läuft ."


@pytest.mark.parametrize(
    ("split", "control", "message"),
    [
        pytest.param("test", "sequence", "the dataset has no split 'test': expected one of val", id="split"),
        pytest.param("val", "order", "control 'order': expected sequence, set, none", id="control"),
    ],
)
def test_what_is_not_there_is_refused(split, control, message):
    import subprocess
    import sys

    code = (
        "from sct.data.samples import make_samples; from sct.data.records import *; from sct.data.table import build_table\n"
        "image = AnnotatedImage(image_id='1', split='val', width=9, height=9, regions=(), captions=())\n"
        f"make_samples(build_table([image]), {split!r}, {control!r})"
    )
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"{InputError.__name__}: {message}" in failed.stderr
