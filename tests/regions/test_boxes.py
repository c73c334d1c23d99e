import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sct.regions.boxes import box_iou, nms

SQUARE = [0.0, 0.0, 2.0, 2.0]


@st.composite
def boxes(draw):
    """Boxes on a grid, none of them empty."""
    count = draw(st.integers(0, 5))
    corners = draw(arrays(np.float64, (count, 2), elements=st.integers(0, 20).map(float)))
    sides = draw(arrays(np.float64, (count, 2), elements=st.integers(1, 20).map(float)))
    return np.hstack([corners, corners + sides])


@pytest.mark.parametrize(
    ("other", "expected", "expected_inclusive"),
    [
        # a side of the square is 2 long, or 3 with the last pixel counted
        pytest.param(SQUARE, 1, 1, id="the same"),
        pytest.param([1.0, 0.0, 3.0, 2.0], 2 / (4 + 4 - 2), 6 / (9 + 9 - 6), id="half over"),
        pytest.param([0.0, 0.0, 1.0, 1.0], 1 / 4, 4 / 9, id="inside"),
        pytest.param([2.0, 0.0, 4.0, 2.0], 0, 3 / (9 + 9 - 3), id="touching shares one column of pixels"),
        pytest.param([3.0, 0.0, 5.0, 2.0], 0, 0, id="next pixel"),
        pytest.param([9.0, 9.0, 12.0, 12.0], 0, 0, id="far in both directions"),
        pytest.param([1.0, 9.0, 3.0, 12.0], 0, 0, id="far in one direction"),
        pytest.param([1.0, 1.0, 1.0, 1.0], 0, 1 / 9, id="a point is one pixel"),
    ],
)
def test_box_iou(other, expected, expected_inclusive):
    first, second = np.array([SQUARE]), np.array([other])
    assert box_iou(first, second)[0, 0] == pytest.approx(expected)
    assert box_iou(first, second, pixel_inclusive=True)[0, 0] == pytest.approx(expected_inclusive)


def test_empty_boxes_have_iou_0():
    point = np.array([[1.0, 1.0, 1.0, 1.0]])
    assert box_iou(point, point).tolist() == [[0]]


def test_iou_of_every_pair():
    first = np.array([SQUARE, [9.0, 9.0, 12.0, 12.0]])
    second = np.array([[9.0, 9.0, 12.0, 12.0], [20.0, 20.0, 21.0, 21.0], SQUARE])
    assert box_iou(first, second).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert box_iou(first, np.zeros((0, 4))).shape == (2, 0)


@given(first=boxes(), second=boxes(), pixel_inclusive=st.booleans())
def test_iou_is_symmetric_and_between_0_and_1(first, second, pixel_inclusive):
    shares = box_iou(first, second, pixel_inclusive=pixel_inclusive)
    assert ((shares >= 0) & (shares <= 1)).all()
    np.testing.assert_allclose(shares, box_iou(second, first, pixel_inclusive=pixel_inclusive).T)
    np.testing.assert_allclose(np.diag(box_iou(first, first, pixel_inclusive=pixel_inclusive)), 1)


@pytest.mark.parametrize(
    ("scores", "classes", "kept"),
    [
        pytest.param([], None, [], id="no boxes"),
        pytest.param([0.5, 0.9, 0.7], None, [1, 2], id="highest score first, overlapping ones dropped"),
        pytest.param([0.5, 0.5, 0.5], None, [0, 2], id="equal scores keep their order"),
        pytest.param([0.5, 0.9, 0.7], [0, 1, 0], [1, 2, 0], id="other classes have the higher threshold"),
        pytest.param([0.5, 0.9, 0.7], [1, 1, 0], [1, 2], id="one class has the lower threshold"),
    ],
)
def test_nms(scores, classes, kept):
    boxes = np.array([[0.0, 0, 10, 10], [3, 0, 13, 10], [50, 50, 60, 60]])[
        : len(scores)
    ]  # IoU of the first two: 7 / 13
    class_ids = None if classes is None else np.array(classes)
    threshold = 0.5 if classes is None else 0.6
    found = nms(boxes, np.array(scores), threshold, classes=class_ids, same_class_iou_threshold=0.5)
    assert found == kept
