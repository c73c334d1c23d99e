import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sct.regions import boxes as numpy_boxes
from sct.vision.box_ops import NUM_ANCHORS, box_iou, build_anchors, decode_boxes, encode_boxes, nms


def _boxes(count: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(count, 2, generator=generator) * 0.6
    return torch.cat([corner, corner + 0.05 + 0.3 * torch.rand(count, 2, generator=generator)], dim=1)


def test_anchors_are_centerd_on_cells_row_by_row() -> None:
    anchors = build_anchors(2, 4)
    assert anchors.shape == (2 * 4 * NUM_ANCHORS, 4)
    centers = (anchors[:, :2] + anchors[:, 2:]) / 2
    torch.testing.assert_close(centers[0], torch.tensor([1 / 8, 1 / 4]))
    torch.testing.assert_close(centers[NUM_ANCHORS], torch.tensor([3 / 8, 1 / 4]))
    torch.testing.assert_close(centers[4 * NUM_ANCHORS], torch.tensor([1 / 8, 3 / 4]))


def test_decode_boxes_inverts_encode_boxes() -> None:
    boxes, expected = _boxes(50, 1), _boxes(50, 2)
    torch.testing.assert_close(decode_boxes(boxes, encode_boxes(boxes, expected)), expected, atol=1e-5, rtol=0)


def test_decoded_boxes_are_clipped_to_the_image() -> None:
    found = decode_boxes(_boxes(50, 1), torch.randn(50, 4) * 100)
    assert (found >= 0).all()
    assert (found <= 1).all()
    assert (found[:, 2:] >= found[:, :2]).all()


def test_box_iou_equals_the_numpy_one() -> None:
    first, second = _boxes(20, 1), _boxes(30, 2)
    expected = numpy_boxes.box_iou(first.numpy().astype(np.float64), second.numpy().astype(np.float64))
    np.testing.assert_allclose(box_iou(first, second).numpy(), expected, atol=1e-5)


def test_nms_of_no_boxes() -> None:
    assert nms(torch.zeros(0, 4), torch.zeros(0), 0.5, 10).tolist() == []


@given(st.integers(1, 40), st.integers(0, 1000), st.sampled_from([0.3, 0.5, 0.7]))
def test_nms_keeps_boxes_that_do_not_overlap_a_better_one(count: int, seed: int, threshold: float) -> None:
    boxes = _boxes(count, seed)
    scores = torch.rand(count, generator=torch.Generator().manual_seed(seed))
    kept = nms(boxes, scores, threshold, count)
    iou = box_iou(boxes, boxes)
    among = iou[kept][:, kept] - torch.eye(len(kept))
    assert (among <= threshold + 1e-6).all()
    assert (scores[kept].diff() <= 0).all()
    for dropped in set(range(count)) - set(kept.tolist()):
        better = kept[scores[kept] >= scores[dropped]]
        assert iou[dropped, better].max() > threshold


@given(st.integers(0, 30), st.integers(0, 1000), st.sampled_from([0.3, 0.5, 0.7]))
def test_nms_equals_the_numpy_one(count: int, seed: int, threshold: float) -> None:
    boxes = _boxes(count, seed)
    scores = torch.rand(count, generator=torch.Generator().manual_seed(seed))
    expected = numpy_boxes.nms(boxes.double().numpy(), scores.double().numpy(), threshold)
    assert nms(boxes.double(), scores, threshold, count + 1).tolist() == expected


@pytest.mark.parametrize("limit", [1, 3])
def test_nms_keeps_at_most_limit_boxes(limit: int) -> None:
    boxes = torch.tensor([[i / 10, 0, i / 10 + 0.05, 0.1] for i in range(8)])
    assert len(nms(boxes, torch.rand(8), 0.5, limit)) == limit
