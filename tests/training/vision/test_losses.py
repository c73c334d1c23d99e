import math

import pytest
import torch

from sct.training.vision import losses
from sct.training.vision.augment import no_augmentation
from sct.training.vision.losses import RegionTargets, vision_loss
from sct.vision.region_network import RegionEncoder, RegionEncoderConfig
from sct.vision.vit import ViTConfig

NUM_CLASSES, NUM_WORDS = 500, 3
BALL, GRASS = 0, 1


def _network() -> RegionEncoder:
    torch.manual_seed(1)
    return RegionEncoder(
        RegionEncoderConfig(
            num_classes=NUM_CLASSES,
            num_words=NUM_WORDS,
            image_size=84,
            reduced_channels=8,
            map_scale=2,
            feature_size=16,
            dropout=0.0,
            vit=ViTConfig(width=24, num_heads=2, depth=1, grid_size=6),
        )
    )


def _targets(*, human_grounded: bool = True, unboxed: int = -1) -> RegionTargets:
    """One region, a ball; perhaps a noun without a box."""
    return RegionTargets(
        region_classes=torch.tensor([[[BALL]]], dtype=torch.int16),
        region_class_weights=torch.ones(1, 1, 1),
        region_words=torch.tensor([[[0, -1]]], dtype=torch.int16),
        image_classes=torch.tensor([[BALL, unboxed]], dtype=torch.int16),
        is_boxed=torch.tensor([[True, False]]),
        image_words=torch.tensor([[0, 2]], dtype=torch.int16),
        human_grounded=torch.tensor([human_grounded]),
    )


def _terms(network: RegionEncoder, targets: RegionTargets) -> dict[str, float]:
    torch.manual_seed(1)
    pixels = torch.randint(0, 255, (1, 3, 84, 84), dtype=torch.uint8)
    batch = no_augmentation(pixels, torch.tensor([[[0.2, 0.2, 0.6, 0.7]]]), torch.ones(1, 1, dtype=torch.bool))
    loss = vision_loss(network, batch, targets, unsure_negative_weight=0.3)
    network.zero_grad()
    loss.total.backward()
    return {name: float(value) for name, value in loss.terms.items()}


def test_every_weight_learns() -> None:
    network = _network()
    _terms(network, _targets(unboxed=GRASS))
    assert [name for name, weight in network.named_parameters() if weight.grad is None or not weight.grad.any()] == []


def test_a_noun_without_a_box_is_learned_from_proposals() -> None:
    network = _network()
    pulls = []
    for unboxed in (-1, GRASS):
        mil = _terms(network, _targets(unboxed=unboxed))["mil"]
        assert (mil > 0) == (unboxed == GRASS)
        assert network.class_head.bias.grad is not None
        pulls.append(network.class_head.bias.grad[GRASS].item())
    assert pulls[1] < pulls[0], "the gradient raises the probability of the noun"


def test_negatives_count_less_where_not_everything_has_a_box() -> None:
    network = _network()
    sure, unsure = (_terms(network, _targets(human_grounded=human_grounded)) for human_grounded in (True, False))
    assert unsure["rpn_objectness"] < sure["rpn_objectness"]
    assert unsure["classes"] == pytest.approx(sure["classes"])


@pytest.mark.parametrize(
    ("human_grounded", "expected"),
    [
        pytest.param(True, -(math.log(0.5) + math.log(0.2)) / 2, id="a distribution of names that people gave"),
        pytest.param(False, -math.log(0.5 + 0.2), id="one of the names, not known which"),
    ],
)
def test_loss_of_names(human_grounded: bool, expected: float) -> None:
    log_probabilities = torch.tensor([[[0.5, 0.2, 0.2, 0.1]]]).log()
    classes = torch.tensor([[[0, 1, -1]]], dtype=torch.int16)
    weights = torch.tensor([[[0.5, 0.5, 0.0] if human_grounded else [1.0, 1.0, 0.0]]])
    loss = losses._name_loss(log_probabilities, classes, weights, torch.tensor([human_grounded]))
    assert loss.item() == pytest.approx(0.9 * expected - 0.1 * log_probabilities.mean().item())


@pytest.mark.parametrize(
    ("is_candidate", "is_learned", "expected"),
    [
        pytest.param([True, True], True, -math.log(0.1 + 0.6), id="some box has the name"),
        pytest.param([True, False], True, -math.log(0.1), id="only boxes that may have it"),
        pytest.param([False, False], True, 0.0, id="no box may have it"),
        pytest.param([True, True], False, 0.0, id="learned elsewhere"),
    ],
)
def test_loss_of_multiple_instances(is_candidate: list[bool], is_learned: bool, expected: float) -> None:
    probabilities = torch.tensor([[[0.9, 0.1], [0.4, 0.6]]], requires_grad=True)
    loss = losses._mil_loss(
        probabilities.log(),
        torch.tensor(is_candidate)[None, :, None],
        torch.tensor([[1]], dtype=torch.int16),
        torch.tensor([[is_learned]]),
    )
    assert loss.item() == pytest.approx(expected)
    loss.backward()
    assert probabilities.grad is not None
    assert probabilities.grad.isfinite().all()


def test_a_noun_of_a_class_is_learned_from_one_of_its_boxes() -> None:
    """Only where nobody told which box it is."""
    network = _network()
    for human_grounded in (True, False):
        assert (_terms(network, _targets(human_grounded=human_grounded))["boxed_mil"] > 0) == (not human_grounded)
