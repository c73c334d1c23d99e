"""Regions of images from a JSON file."""

import json
from pathlib import Path

import pytest

from sct.errors import InputError
from sct.regions.parsing import read_controls

FILES = [Path("some/a.jpg"), Path("some/b.jpg")]


def written(tmp_path, content):
    path = tmp_path / "regions.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def boxes(control):
    return control and [[tuple(region.box) for region in each.regions] for each in control.region_sets]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param({}, [None, None], id="nothing"),
        pytest.param({"a.jpg": [[0, 0, 5, 5]]}, [[[(0, 0, 5, 5)]], None], id="by file name"),
        pytest.param({"some/b.jpg": [[0, 0, 5, 5]]}, [None, [[(0, 0, 5, 5)]]], id="by path"),
        pytest.param(
            {"some/a.jpg": [[[0, 0, 5, 5], [1, 1, 2.5, 2]], [0, 0, 9, 9]]},
            [[[(0, 0, 5, 5), (1, 1, 2.5, 2)], [(0, 0, 9, 9)]], None],
            id="a set",
        ),
    ],
)
def test_read_controls(tmp_path, content, found):
    controls = read_controls(written(tmp_path, content), FILES)
    assert [boxes(control) for control in controls] == found


def test_paths_take_precedence_over_file_names(tmp_path):
    files = [Path("x/a.jpg"), Path("y/a.jpg")]
    content = {"a.jpg": [[0, 0, 5, 5]], "y/a.jpg": [[0, 0, 9, 9]]}
    assert [boxes(each) for each in read_controls(written(tmp_path, content), files)] == [
        [[(0, 0, 5, 5)]],
        [[(0, 0, 9, 9)]],
    ]


def test_a_single_image_needs_no_name(tmp_path):
    [control] = read_controls(written(tmp_path, [[0, 0, 5, 5]]), FILES[:1], ordered=False)
    assert boxes(control) == [[(0, 0, 5, 5)]]
    assert not control.ordered


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("{", "is not valid JSON", id="not JSON"),
        pytest.param("[" * 100_000, "is nested too deeply", id="deep"),
        pytest.param('{"a.jpg": ' + "[" * 900 + "]" * 900 + "}", "a.jpg: got .*: expected", id="less deep"),
        pytest.param('{"a.jpg": [[0, 0, 5, ' + "9" * 5000 + "]]}", "too many digits", id="a number of 5,000 digits"),
        pytest.param('{"a.jpg": [[0, 0, 5, ' + "9" * 400 + "]]}", "not made of numbers", id="a number of 400 digits"),
        pytest.param({"a.jpg": [[0.1, 0.1, 0.5, 0.5]]}, "expected pixels, not fractions", id="fractions"),
        pytest.param("5", "has a int", id="a number"),
        pytest.param([[0, 0, 5, 5]], "without image names for 2 images", id="a list for two"),
        pytest.param({"c.jpg": [[0, 0, 5, 5]]}, "names 'c.jpg', which is none of the 2 images", id="unknown image"),
        pytest.param({"a.jpg": []}, "a.jpg: the control is empty", id="no region"),
        pytest.param({"a.jpg": [0, 0, 5, 5]}, r"got \[0, 0, 5, 5\]: expected", id="a box without its list"),
        pytest.param({"a.jpg": [[]]}, "a.jpg: got .*: expected", id="an empty region set"),
        pytest.param({"a.jpg": [[0, 0, 5]]}, "a.jpg: box .* has 3 numbers", id="three numbers"),
        pytest.param({"a.jpg": [[0, 0, 5, True]]}, "a.jpg: got .*: expected", id="true"),
        pytest.param({"a.jpg": [[0, 0, 5, "5"]]}, "a.jpg: got .*: expected", id="text"),
        pytest.param({"a.jpg": [[5, 0, 0, 5]]}, "inverted", id="an inverted box"),
        pytest.param('{"a.jpg": [[0, 0, 5, NaN]]}', "not finite", id="not a number"),
        pytest.param({"a.jpg": [[[0, 0, 5, 5], 7]]}, "a.jpg: got .*: expected", id="a box and a number"),
    ],
)
def test_bad_content_is_refused(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_controls(written(tmp_path, content), FILES)


def test_missing_files_and_folders_are_refused(tmp_path):
    with pytest.raises(InputError, match="nowhere does not exist"):
        read_controls(tmp_path / "nowhere", FILES)
    with pytest.raises(InputError, match=r"is a folder: expected \{.photo\.jpg"):
        read_controls(tmp_path, FILES)
