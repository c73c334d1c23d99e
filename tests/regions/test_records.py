from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from sct.errors import InputError
from sct.regions import Box, Control, Region, RegionSet

BOX = (20.0, 30.0, 200.0, 310.0)


@pytest.mark.parametrize(
    ("corners", "message"),
    [
        pytest.param((), "has 0 numbers: expected x1, y1, x2, y2", id="nothing"),
        pytest.param((1.0, 2.0, 3.0), "has 3 numbers", id="three numbers"),
        pytest.param((1.0, 2.0, 3.0, 4.0, 5.0), "has 5 numbers", id="five numbers"),
        pytest.param((float("nan"), 2.0, 3.0, 4.0), "not finite", id="NaN"),
        pytest.param((1.0, 2.0, float("inf"), 4.0), "not finite", id="infinite"),
        pytest.param((1.0, 2.0, 1e308, 4.0), "expected pixels, at most", id="huge"),
        pytest.param((1.0, 2.0, -(10**400), 4.0), "not made of numbers", id="beyond a float"),
        pytest.param((3.0, 2.0, 1.0, 4.0), "inverted or empty", id="right of itself"),
        pytest.param((1.0, 4.0, 3.0, 2.0), "inverted or empty", id="below itself"),
        pytest.param((1.0, 2.0, 1.0, 4.0), "inverted or empty", id="no width"),
        pytest.param((1.0, 2.0, 3.0, 2.0), "inverted or empty", id="no height"),
    ],
)
def test_a_bad_box_is_refused(corners, message):
    with pytest.raises(InputError, match=message):
        Box.from_corners(corners)


def test_a_box_is_made_of_floats():
    box = Box.from_corners([1, 2, 3, 4])
    assert box == (1.0, 2.0, 3.0, 4.0)
    assert all(isinstance(value, float) for value in box)


@pytest.mark.parametrize(
    ("width", "height"),
    [pytest.param(200, 310, id="touching the edge"), pytest.param(640.0, 480.0, id="well inside")],
)
def test_a_box_may_fill_the_image(width, height):
    Box(*BOX).check_inside(width, height)


@pytest.mark.parametrize(
    "corners",
    [
        pytest.param((-1.0, 0.0, 5.0, 5.0), id="left"),
        pytest.param((0.0, -1.0, 5.0, 5.0), id="above"),
        pytest.param((0.0, 0.0, 11.0, 5.0), id="right"),
        pytest.param((0.0, 0.0, 5.0, 9.0), id="below"),
    ],
)
def test_a_box_that_leaves_the_image_is_refused(corners):
    with pytest.raises(InputError, match=r"leaves the image: expected corners within \(0, 0, 10, 8\)"):
        Box(*corners).check_inside(10, 8)


@pytest.mark.parametrize(
    ("corners", "expected"),
    [
        pytest.param((0.0, 0.0, 640.0, 480.0), (0.0, 0.0, 640.0, 480.0), id="inside"),
        pytest.param((-12.8, -9.6, 652.8, 489.6), (0.0, 0.0, 640.0, 480.0), id="2 % over every edge"),
        pytest.param((630.0, 10.0, 641.0, 20.0), (630.0, 10.0, 640.0, 20.0), id="right"),
    ],
)
def test_a_box_that_leaves_the_image_by_a_few_pixels_is_clipped(corners, expected):
    box = Box(*corners)
    assert box.clip(640, 480) == expected
    assert (box.clip(640, 480) is box) == (corners == expected), "the caller learns whether it was clipped"


@pytest.mark.parametrize(
    "corners",
    [
        pytest.param((-13.0, 0.0, 5.0, 5.0), id="left"),
        pytest.param((0.0, -10.0, 5.0, 5.0), id="above"),
        pytest.param((0.0, 0.0, 653.0, 5.0), id="right"),
        pytest.param((0.0, 0.0, 5.0, 490.0), id="below"),
        pytest.param((640.0, 0.0, 644.0, 5.0), id="nothing left of it"),
    ],
)
def test_a_box_far_outside_is_not_clipped(corners):
    with pytest.raises(InputError, match="leaves the image"):
        Box(*corners).clip(640, 480)


def test_a_small_image_allows_8_pixels():
    assert Box(-8.0, 0.0, 18.0, 9.0).clip(10, 10) == (0.0, 0.0, 10.0, 9.0)
    with pytest.raises(InputError, match="leaves the image"):
        Box(-8.5, 0.0, 9.0, 9.0).clip(10, 10)


def test_clipping_a_control_keeps_classes_and_order():
    inside, over = Region(Box(0.0, 0.0, 5.0, 5.0), "cat"), Region(Box(5.0, 0.0, 12.0, 8.0), "dog", 0.5)
    control = Control((RegionSet((inside, over)),), ordered=False)
    assert control.clip(12, 8) is control
    assert control.clip(10, 8) == Control(
        (RegionSet((inside, Region(Box(5.0, 0.0, 10.0, 8.0), "dog", 0.5))),), ordered=False
    )


@pytest.mark.parametrize("score", [None, 0.0, 0.5, 1.0])
def test_a_score_lies_between_0_and_1(score):
    assert Region(Box(*BOX), "dog", score).score == score


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
def test_a_score_out_of_range_is_refused(score):
    with pytest.raises(InputError, match=r"score .* of region \(20.0, 30.0, 200.0, 310.0\) is out of range"):
        Region(Box(*BOX), "dog", score)


def test_a_region_checks_its_box():
    with pytest.raises(InputError, match="inverted or empty"):
        Region(Box(3.0, 2.0, 1.0, 4.0))


def test_regions_are_equal_whatever_their_features():
    first = Region(Box(*BOX), feature=np.zeros(3))
    assert first == Region(Box(*BOX), feature=np.ones(3))
    assert first != Region(Box(*BOX), "dog")
    assert len({first, Region(Box(*BOX))}) == 1


def test_a_region_does_not_change():
    with pytest.raises(FrozenInstanceError):
        Region(Box(*BOX)).score = 0.5


def test_an_empty_region_set_is_refused():
    with pytest.raises(InputError, match="region set is empty"):
        RegionSet(())


def test_an_empty_control_is_refused():
    with pytest.raises(InputError, match="control is empty"):
        Control(())
    with pytest.raises(InputError, match="control is empty"):
        Control.from_boxes([])


@pytest.mark.parametrize("ordered", [True, False])
def test_a_control_of_boxes_has_a_set_for_each(ordered):
    control = Control.from_boxes([BOX, (1, 2, 3, 4)], ordered=ordered)
    assert control.ordered is ordered
    assert [region_set.regions for region_set in control.region_sets] == [
        (Region(Box(*BOX)),),
        (Region(Box(1.0, 2.0, 3.0, 4.0)),),
    ]


def test_a_control_of_bad_boxes_is_refused():
    with pytest.raises(InputError, match="inverted or empty"):
        Control.from_boxes([BOX, (3, 2, 1, 4)])
