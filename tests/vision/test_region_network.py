import pytest
import torch

from sct.vision.box_ops import NUM_ANCHORS
from sct.vision.region_network import RegionEncoder, RPNOutput
from tests.factories import CLASS_NAMES, make_region_network

BOXES = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [0.1, 0.2, 0.6, 0.5]]] * 2)


def _with_class_embeddings() -> RegionEncoder:
    network = make_region_network(class_embedding_size=2).eval()
    network.class_embeddings.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]))
    return network


def _pixels() -> torch.Tensor:
    return torch.randn(2, 3, 84, 84, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_without_class_embeddings_the_output_is_the_box_feature() -> None:
    network = make_region_network().eval()
    maps = network.encode_pixels(_pixels())
    assert torch.equal(network.roi_features(maps, BOXES), network.box_features(maps, BOXES))
    assert "class_embeddings" not in network.state_dict()


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        pytest.param([0.0, 0.0, 0.0], [1 / 3, 2 / 3], id="uniform"),
        pytest.param([99.0, 0.0, 0.0], [1.0, 0.0], id="one certain class"),
        pytest.param([50.0, 50.0, 0.0], [0.5, 1.0], id="two classes"),
        pytest.param([0.0, 0.0, 99.0], [0.0, 0.0], id="a class without an embedding"),
    ],
)
def test_class_embeddings_are_weighted_by_class_probability(logits: list[float], expected: list[float]) -> None:
    features = torch.arange(16.0)
    output = _with_class_embeddings().output_features(features, torch.tensor(logits))
    assert torch.equal(output[:16], features)
    torch.testing.assert_close(output[16:], torch.tensor(expected))


@torch.no_grad()
def test_class_embeddings_are_appended_to_unchanged_box_features() -> None:
    plain, network = make_region_network().eval(), _with_class_embeddings()
    features = network.roi_features(network.encode_pixels(_pixels()), BOXES)
    assert features.shape == (2, 2, 16 + 2)
    box_features = plain.box_features(plain.encode_pixels(_pixels()), BOXES)
    assert torch.equal(features[..., :16], box_features)
    probabilities = plain.class_head(box_features).softmax(-1)
    assert probabilities.shape[-1] == len(CLASS_NAMES)
    torch.testing.assert_close(features[..., 16:], probabilities[..., :2] * torch.tensor([1.0, 2.0]))


@torch.no_grad()
def test_proposals_are_made_from_local_maxima_of_fine_maps() -> None:
    """Anchors of the same shape in neighbouring cells compete."""
    network = make_region_network(map_scale=2)
    objectness = torch.zeros(1, 12, 12, NUM_ANCHORS)
    objectness[0, 2, 3, 4], objectness[0, 3, 3, 4], objectness[0, 2, 3, 5], objectness[0, 4, 3, 4] = 2.0, 1.0, 1.0, 0.5
    rpn = RPNOutput(objectness.flatten(1), torch.zeros(1, objectness[0].numel(), 4))
    kept = network.anchor_scores(rpn).view_as(objectness)
    assert kept[0, 2, 3, 4:6].tolist() == [2.0, 1.0], "anchors of two shapes"
    assert kept[0, 3:5, 3, 4].tolist() == [-torch.inf, -torch.inf], "each is beside a better one"
    assert kept[0, 0, 0, 0] == 0
    assert torch.equal(make_region_network().anchor_scores(rpn), rpn.objectness), "one cell per patch: all anchors"
