import pytest
import torch

from sct.vision.box_ops import nms
from sct.vision.preprocess import normalize
from sct.vision.proposals import AnchorSelection, nms_batch, nms_each, propose
from sct.vision.region_network import FeatureMaps, RegionEncoder
from tests.factories import make_region_network

NMS = pytest.mark.parametrize("suppress", [nms_each, nms_batch])


def _network_with_varied_boxes(seed: int, map_scale: int = 1) -> RegionEncoder:
    """Random weights that are large enough for boxes and scores to differ between images."""
    network = make_region_network(seed, map_scale=map_scale).eval()
    for layer in (network.rpn_head, network.box_head, network.objectness):
        torch.nn.init.normal_(layer.weight, std=0.2)
    return network


@torch.no_grad()
def _maps(network: RegionEncoder, num_images: int = 5) -> FeatureMaps:
    """Maps of images of noise, one of which is plain."""
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (num_images, 3, 84, 84), dtype=torch.uint8, generator=generator)
    pixels[-1] = 128
    return network.encode_pixels(normalize(pixels))


def _random_boxes(num_images: int, num_boxes: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Boxes, scores and which are boxes; the first image has none."""
    generator = torch.Generator().manual_seed(2)
    corners, sizes = (torch.rand(num_images, num_boxes, 2, generator=generator) for _ in range(2))
    is_box = torch.rand(num_images, num_boxes, generator=generator) < 0.8
    is_box[0] = False
    return torch.cat([corners, corners + sizes], dim=-1), torch.rand(is_box.shape, generator=generator), is_box


@NMS
@pytest.mark.parametrize("limit", [1, 20, 500])
@pytest.mark.parametrize("map_scale", [1, 2])
def test_a_batch_has_the_proposals_of_single_images(map_scale, limit, suppress, monkeypatch):
    network = _network_with_varied_boxes(3, map_scale)
    maps = _maps(network)
    alone = [propose(network, maps.select(image), limit) for image in range(5)]
    monkeypatch.setattr("sct.vision.proposals.nms_each", suppress)  # what a GPU uses too
    batched = propose(network, maps, limit)
    counts = batched.is_proposal.sum(1).tolist()
    assert counts == [int(each.is_proposal.sum()) for each in alone]
    assert 0 < min(counts) <= max(counts) <= limit
    for image, (count, expected) in enumerate(zip(counts, alone, strict=True)):
        assert batched.is_proposal[image, :count].all(), "padding comes last"
        torch.testing.assert_close(batched.scores[image, :count], expected.scores[0, :count], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(batched.boxes[image, :count], expected.boxes[0, :count], atol=1e-5, rtol=1e-4)


def test_proposals_are_boxes_highest_score_first():
    network = _network_with_varied_boxes(3)
    proposals = propose(network, _maps(network), 500)
    assert len(set(proposals.is_proposal.sum(1).tolist())) > 1, "some images are padded"
    for boxes, scores, is_proposal in zip(proposals.boxes, proposals.scores, proposals.is_proposal, strict=True):
        found = boxes[is_proposal]
        assert ((found >= 0) & (found <= 1)).all()
        assert (found[:, :2] < found[:, 2:]).all()
        assert (scores[is_proposal].diff() <= 0).all()


@torch.no_grad()
def test_images_without_candidates_have_no_proposals(monkeypatch):
    network = _network_with_varied_boxes(3)
    monkeypatch.setattr(network, "anchor_scores", lambda rpn: torch.full_like(rpn.objectness, -torch.inf))
    assert not propose(network, _maps(network), 30).is_proposal.any()


@NMS
@pytest.mark.parametrize("limit", [1, 12, 100])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.75])
def test_nms_of_many_images_equals_greedy_nms(threshold, limit, suppress):
    boxes, scores, is_box = _random_boxes(70, 60)  # more images than have all their overlaps in memory at once
    kept = suppress(boxes, scores, is_box, threshold, limit)
    for image in range(len(boxes)):
        rows = torch.nonzero(is_box[image]).squeeze(1)
        expected = rows[nms(boxes[image][rows], scores[image][rows], threshold, limit)]
        assert kept.indices[image][kept.is_kept[image]].tolist() == expected.tolist()


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.75])
def test_both_nms_keep_the_same_boxes(threshold):
    each, batch = (suppress(*_random_boxes(8, 200), threshold, 30) for suppress in (nms_each, nms_batch))
    width = each.indices.shape[1]
    assert width == int(batch.is_kept.sum(1).max()), "padded no further than needed"
    assert not batch.is_kept[:, width:].any()
    assert torch.equal(each.is_kept, batch.is_kept[:, :width])
    assert torch.equal(each.indices[each.is_kept], batch.indices[batch.is_kept])


@NMS
def test_nms_without_a_box(suppress):
    kept = suppress(torch.zeros(1, 3, 4), torch.zeros(1, 3), torch.zeros(1, 3, dtype=torch.bool), 0.5, 2)
    assert not kept.is_kept.any()


def test_encoders_with_one_cell_per_patch_propose_as_they_did_when_they_were_measured():
    """The encoder of the default bundle; finer maps have other numbers."""
    selections = [AnchorSelection.of(make_region_network(map_scale=scale).config) for scale in (1, 2)]
    assert selections == [AnchorSelection(1200, 0.75), AnchorSelection(1000, 0.65)]
