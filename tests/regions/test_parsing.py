"""What a user points at, as a control."""

import subprocess
import sys

import numpy as np
import pytest

from sct.regions import Box, Control, Region, RegionSet
from sct.regions.parsing import as_control, clip_control

ONE, OTHER = Box(0, 0, 5, 5), Box(5, 0, 9, 5)


@pytest.mark.parametrize(
    ("regions", "sets"),
    [
        pytest.param([(0, 0, 5, 5)], [[ONE]], id="a box"),
        pytest.param([ONE, OTHER], [[ONE], [OTHER]], id="two boxes"),
        pytest.param([[ONE, OTHER], ONE], [[ONE, OTHER], [ONE]], id="a set of boxes"),
        pytest.param(np.array([ONE, OTHER]), [[ONE], [OTHER]], id="rows of an array"),
        pytest.param(np.array([[ONE, OTHER]]), [[ONE, OTHER]], id="an array of sets"),
        pytest.param([Region(ONE), [Region(OTHER), (0, 0, 5, 5)]], [[ONE], [OTHER, ONE]], id="regions"),
        pytest.param([RegionSet((Region(ONE), Region(OTHER)))], [[ONE, OTHER]], id="a region set"),
        pytest.param(Control.from_boxes([ONE, OTHER]), [[ONE], [OTHER]], id="a control"),
    ],
)
def test_each_item_is_a_region_set(regions, sets):
    control = as_control(regions)
    assert control.ordered
    assert [[region.box for region in each.regions] for each in control.region_sets] == sets
    assert not as_control(regions, ordered=False).ordered


def test_relative_boxes_become_pixels():
    control = as_control([(0, 0.5, 0.25, 1), [(0, 0, 1, 1)]], ordered=False, relative=True)
    assert control.relative
    pixels = clip_control(control, 200, 100, "image")
    assert pixels == Control.from_boxes([(0, 50, 50, 100), (0, 0, 200, 100)], ordered=False)
    assert pixels.to_pixels(7, 7) is pixels
    assert as_control(control, relative=False).relative, "fractions stay fractions"


def test_class_score_and_feature_are_kept():
    dog = Region(ONE, "dog", 0.5)
    assert as_control([dog]).region_sets[0].regions == (dog,)
    assert not as_control(Control.from_boxes([ONE], ordered=False)).ordered, "a set stays one"


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        pytest.param("(0, 0, 5, 5)", "got region 0: expected a list of boxes", id="a box without its list"),
        pytest.param("'0,0,5,5'", "got region '0,0,5,5': expected a list of boxes", id="text"),
        pytest.param("5", "got region 5: expected a list of boxes", id="a number"),
        pytest.param("[[0, 0, 5, 'x']]", "is not made of numbers", id="a letter"),
        pytest.param("[[0, 0, 5, '5']]", "is not made of numbers", id="a number as text"),
        pytest.param("[(0.1, 0.1, 0.5, 0.5)]", "expected pixels, not fractions", id="fractions of the image"),
        pytest.param("[(0, 0, 1, 1)]", "relative=True, or --relative, takes", id="the whole image as fractions"),
        pytest.param("[(0, 0, 5, 5)], relative=True", "expected fractions of the image", id="pixels as fractions"),
        pytest.param("[[[0, 0, 5, 5], 7]]", "has 2 numbers", id="a box and a number"),
    ],
)
def test_bad_values_are_refused(regions, message):
    """In a process of its own, where no type checker of the tests stands before the code."""
    code = (
        "import sct\nfrom sct.regions.parsing import as_control\n"
        f"try:\n    as_control({regions})\nexcept sct.InputError as error:\n    print(error)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert message in found.stdout
