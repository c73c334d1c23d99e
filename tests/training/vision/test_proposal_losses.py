"""Losses of anchors: the target of their objectness is the IoU of the box that they are decoded to."""

import pytest
import torch
from torch import Tensor

from sct.training.vision.augment import AugmentedBatch, no_augmentation
from sct.training.vision.proposal_losses import rpn_loss
from sct.vision.box_ops import box_iou, encode_boxes
from sct.vision.region_network import RegionEncoder, RPNOutput
from tests.factories import make_region_network

HUMAN_BOX = (0.2, 0.2, 0.6, 0.7)


def _batch() -> AugmentedBatch:
    pixels = torch.randint(0, 255, (1, 3, 84, 84), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    return no_augmentation(pixels, torch.tensor([[HUMAN_BOX]]), torch.ones(1, 1, dtype=torch.bool))


def _objectness_gradient(
    network: RegionEncoder, deltas: Tensor, objectness: float, monkeypatch: pytest.MonkeyPatch
) -> Tensor:
    """Gradient of the loss at the objectness logit of each anchor; above 0, training lowers it."""
    batch = _batch()
    logits = torch.full((1, len(network.anchors)), objectness, requires_grad=True)
    monkeypatch.setattr(network, "rpn", lambda _: RPNOutput(logits, deltas))
    loss, _ = rpn_loss(network, network.encode_pixels(batch.pixels), batch, torch.ones(1, 1))
    loss.total.backward()
    assert logits.grad is not None
    return logits.grad[0]


@pytest.fixture
def network() -> RegionEncoder:
    return make_region_network()


def _positive(network: RegionEncoder) -> Tensor:
    """Two anchors that overlap the human box by more than half."""
    return box_iou(network.anchors, torch.tensor([HUMAN_BOX]))[:, 0].topk(2).indices


@pytest.mark.parametrize("objectness", [-2.0, 0.0, 1.0, 3.0])
def test_objectness_is_pulled_to_the_iou_of_the_decoded_box(
    network: RegionEncoder, objectness: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up where the box fits better than the objectness says, down where it fits worse."""
    exact, poor = _positive(network).tolist()
    anchors = network.anchors
    deltas = torch.zeros(1, len(anchors), 4)
    deltas[0, exact] = encode_boxes(anchors[exact], torch.tensor(HUMAN_BOX))
    # The right half of the human box, and the same to its right: IoU 1/3.
    deltas[0, poor] = encode_boxes(anchors[poor], torch.tensor([0.4, 0.2, 0.8, 0.7]))
    gradient = _objectness_gradient(network, deltas, objectness, monkeypatch)
    assert gradient[exact] < 0
    assert (gradient[poor] < 0) == (torch.tensor(objectness).sigmoid() < 1 / 3)
    assert gradient[exact] < gradient[poor]


def test_an_objectness_equal_to_the_iou_is_left_alone(network: RegionEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    _, anchor = _positive(network).tolist()
    deltas = torch.zeros(1, len(network.anchors), 4)
    deltas[0, anchor] = encode_boxes(network.anchors[anchor], torch.tensor([0.4, 0.2, 0.8, 0.7]))
    gradient = _objectness_gradient(network, deltas, torch.tensor(1 / 3).logit().item(), monkeypatch)
    assert gradient[anchor].item() == pytest.approx(0, abs=1e-6)


def test_background_is_pulled_down_wherever_its_box_goes(
    network: RegionEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An anchor far from human boxes is background, even if its box were decoded to one."""
    anchors = network.anchors
    far = int((box_iou(anchors, torch.tensor([HUMAN_BOX]))[:, 0] == 0).nonzero()[0])
    deltas = torch.zeros(1, len(anchors), 4)
    deltas[0, far] = encode_boxes(anchors[far], torch.tensor(HUMAN_BOX))
    assert _objectness_gradient(network, deltas, 0.0, monkeypatch)[far] > 0
