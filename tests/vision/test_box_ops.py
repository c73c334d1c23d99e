import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sct.regions.boxes import box_iou
from sct.vision.box_ops import NUM_ANCHORS, anchors, encode_boxes, moved, nms, overlaps


def _boxes(count: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(count, 2, generator=generator) * 0.6
    return torch.cat([corner, corner + 0.05 + 0.3 * torch.rand(count, 2, generator=generator)], dim=1)


def test_anchors_lie_around_the_centres_of_cells_row_by_row() -> None:
    laid = anchors(2, 4)
    assert laid.shape == (2 * 4 * NUM_ANCHORS, 4)
    centres = (laid[:, :2] + laid[:, 2:]) / 2
    torch.testing.assert_close(centres[0], torch.tensor([1 / 8, 1 / 4]))
    torch.testing.assert_close(centres[NUM_ANCHORS], torch.tensor([3 / 8, 1 / 4]))
    torch.testing.assert_close(centres[4 * NUM_ANCHORS], torch.tensor([1 / 8, 3 / 4]))


def test_moved_undoes_deltas_between() -> None:
    boxes, expected = _boxes(50, 1), _boxes(50, 2)
    torch.testing.assert_close(moved(boxes, encode_boxes(boxes, expected)), expected, atol=1e-5, rtol=0)


def test_moved_boxes_stay_in_the_image_whatever_the_deltas() -> None:
    found = moved(_boxes(50, 1), torch.randn(50, 4) * 100)
    assert (found >= 0).all()
    assert (found <= 1).all()
    assert (found[:, 2:] >= found[:, :2]).all()


def test_overlaps_are_those_of_boxes() -> None:
    first, second = _boxes(20, 1), _boxes(30, 2)
    expected = box_iou(first.numpy().astype(np.float64), second.numpy().astype(np.float64))
    np.testing.assert_allclose(overlaps(first, second).numpy(), expected, atol=1e-5)


def test_no_boxes_have_no_doubles() -> None:
    assert nms(torch.zeros(0, 4), torch.zeros(0), 0.5, 10).tolist() == []


@given(st.integers(1, 40), st.integers(0, 1000), st.sampled_from([0.3, 0.5, 0.7]))
def test_what_is_kept_does_not_overlap_and_what_is_not_does(count: int, seed: int, largest: float) -> None:
    boxes = _boxes(count, seed)
    scores = torch.rand(count, generator=torch.Generator().manual_seed(seed))
    kept = nms(boxes, scores, largest, count)
    share = overlaps(boxes, boxes)
    among = share[kept][:, kept] - torch.eye(len(kept))
    assert (among <= largest + 1e-6).all()
    assert (scores[kept].diff() <= 0).all()
    for left_out in set(range(count)) - set(kept.tolist()):
        better = kept[scores[kept] >= scores[left_out]]
        assert share[left_out, better].max() > largest


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_than_the_limit_are_kept(limit: int) -> None:
    boxes = torch.tensor([[i / 10, 0, i / 10 + 0.05, 0.1] for i in range(8)])
    assert len(nms(boxes, torch.rand(8), 0.5, limit)) == limit
