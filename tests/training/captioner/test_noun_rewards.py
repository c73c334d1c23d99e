"""Rewards of nouns on captions written by hand."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from sct.language.vocabulary import EOS, PAD
from sct.training.captioner.noun_references import NounReferences
from sct.training.captioner.noun_rewards import NounRewards
from sct.training.captioner.objective_config import ObjectiveConfig
from sct.training.captioner.permuted_controls import ControlOrder, draw_orders, num_draws
from sct.training.rewards import AlignmentReferences, AlignmentReward

A, DOG, DOGS, BALL, LAKE, FRONT, IN = range(4, 11)
ALIGNMENT = AlignmentReward.from_vectors(torch.tensor([DOG, DOGS, BALL, LAKE, FRONT]), torch.eye(5), 11)
NAMES = torch.tensor([0, 1, 1, 3, 4, 0])
"""Of no noun, dog, dogs, ball, lake and front."""
REFERENCES = NounReferences(
    AlignmentReferences(torch.tensor([[1, 3, 4]]).int(), torch.tensor([3])),
    sets=torch.tensor([[0, 1, 2]]),
    set_names=torch.tensor([[[1, 0], [3, 0], [4, 3]]]),
    image=torch.tensor([0]),
    image_names=torch.tensor([[1, 3, 4]]),
)
"""Of "a dog in a ball in a lake", where another caption calls the lake a ball."""
REFERENCE, SLOTS = [A, DOG, IN, A, BALL, IN, A, LAKE], [0, 0, 1, 1, 1, 2, 2, 2]


def score(
    words: list[int], slots: list[int], *, sets: tuple[int, ...] = (0, 1, 2), num_sets: int = 3, **weights: float
) -> dict[str, float]:
    """Rewards of a caption under the control that has these region sets of an example in this order."""
    config = ObjectiveConfig(stage="cider_and_nw", noun_weight=1.0, **weights)
    rest = [number for number in range(3) if number not in sets]
    is_permuted = sets != tuple(range(num_sets))
    order = ControlOrder(torch.tensor([[*sets, *rest]]), torch.tensor([len(sets)]), torch.tensor([is_permuted]))
    caption, pointer = torch.tensor([[*words, EOS, DOG, PAD]]), torch.tensor([[*slots, *[slots[-1]] * 3]])
    found = NounRewards(ALIGNMENT, NAMES, REFERENCES, config)(caption, pointer, torch.tensor([0]), order)
    return {name: reward.item() for name, reward in found.items()}


def test_nw_of_a_permuted_control_asks_for_its_order():
    reverse = [A, LAKE, IN, A, BALL, IN, A, DOG]
    assert score(reverse, SLOTS, sets=(2, 1, 0))["nw"] == 1.0
    assert score(REFERENCE, SLOTS, sets=(2, 1, 0))["nw"] == pytest.approx(2 / 3), "NW is 1/3, that of the ball"
    assert score(REFERENCE, SLOTS)["nw"] == 1.0


def test_nw_of_a_subset_asks_for_its_nouns_only():
    assert score([A, LAKE, IN, A, DOG], [0, 0, 1, 1, 1], sets=(2, 0))["nw"] == 1.0
    assert score([A, LAKE, IN, A, BALL, IN, A, DOG], [0, 0, 1, 1, 1, 1, 1, 1], sets=(2, 0))["nw"] < 1.0


def test_nouns_in_no_region_set_count_in_the_order_of_mention_only():
    """The lake is in set 2, which an example of two region sets does not have."""
    assert score([A, BALL, IN, A, DOG], [0, 0, 1, 1, 1], sets=(1, 0), num_sets=2)["nw"] == 1.0
    assert score([A, DOG, IN, A, BALL], [0, 0, 1, 1, 1], sets=(0, 1), num_sets=2)["nw"] < 1.0
    assert score(REFERENCE, SLOTS, sets=(0, 1), num_sets=2)["nw"] == 1.0


@pytest.mark.parametrize(
    ("words", "slots", "expected"),
    [
        pytest.param([A, LAKE, IN, A, DOG], [0, 0, 1, 1, 1], 1.0, id="as asked"),
        pytest.param([A, DOG, IN, A, LAKE], [0, 0, 1, 1, 1], 0.0, id="the other way round"),
        pytest.param([A, LAKE, IN, A, DOGS], [0, 0, 1, 1, 1], 1.0, id="another number"),
        pytest.param([A, BALL, IN, A, BALL], [0, 0, 1, 1, 1], 0.5, id="as another caption says"),
        pytest.param([A, LAKE, IN, A, DOG], [0, 0, 0, 0, 0], 0.5, id="the pointer never moves"),
        pytest.param([A, LAKE], [0, 0], 0.5, id="one is not described"),
        pytest.param([A, FRONT, IN, A], [0, 0, 1, 1], 0.0, id="place"),
        pytest.param([A, IN, A, LAKE], [0, 0, 2, 2], 0.0, id="in the end slot"),
    ],
)
def test_region_sets_are_named_while_the_pointer_is_on_them(words, slots, expected):
    assert score(words, slots, sets=(2, 0), named_set_weight=1.0)["named_sets"] == expected


def test_words_after_eos_name_nothing():
    assert score([A], [0], sets=(0,), named_set_weight=1.0)["named_sets"] == 0.0, "a dog follows EOS"


@pytest.mark.parametrize(
    ("image_names", "expected"),
    [
        pytest.param([1, 3, 4], 0.0, id="all are in the image"),
        pytest.param([1, 0, 0], -2.0, id="the lake is not"),
        pytest.param([0, 0, 0], -4.0, id="both dogs are not either"),
    ],
)
def test_nouns_that_no_caption_of_the_image_has_are_penalised(image_names, expected, monkeypatch):
    words = [A, DOGS, IN, FRONT, LAKE] if image_names[0] else [A, DOG, IN, FRONT, LAKE]
    monkeypatch.setattr(__name__ + ".REFERENCES", with_image_names(image_names))
    penalty = score(words, [0] * 5, unsupported_noun_penalty=2.0)["unsupported_nouns"]
    assert penalty == expected


def with_image_names(image_names: list[int]) -> NounReferences:
    found = REFERENCES
    return NounReferences(found.alignment, found.sets, found.set_names, found.image, torch.tensor([image_names]))


def test_rewards_do_not_synchronise_with_the_device():
    """Or a step could not be captured as a CUDA graph."""
    config = ObjectiveConfig(stage="cider_and_nw", named_set_weight=1.0, unsupported_noun_penalty=1.0)
    rows = torch.tensor([0, 0])
    with FakeTensorMode(allow_non_fake_inputs=True):
        noise = torch.rand(2, num_draws(3))
        order = draw_orders(torch.tensor([2, 3]), noise, 0.5).select(torch.tensor([1, 0]))
        words = torch.tensor([[A, DOG, EOS], [A, BALL, EOS]])
        found = NounRewards(ALIGNMENT, NAMES, REFERENCES, config)(words, torch.zeros_like(words), rows, order)
    assert {name: reward.shape for name, reward in found.items()} == dict.fromkeys(
        ("nw", "named_sets", "unsupported_nouns"), (2,)
    )
