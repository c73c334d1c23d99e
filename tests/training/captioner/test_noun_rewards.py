"""Rewards of nouns on captions written by hand."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from sct.language.vocabulary import EOS, PAD
from sct.training.captioner.noun_rewards import NounReferences, NounRewards, last_nouns
from sct.training.captioner.objective_config import ObjectiveConfig
from sct.training.captioner.permuted_controls import ControlOrder, draw_orders, num_draws
from sct.training.rewards import AlignmentReward, TokenSequences

A, DOG, PUPPY, BALL, LAKE, IN = range(4, 10)
COSINE = 0.6
"""Of dog and puppy; other nouns are orthogonal."""
VECTORS = torch.tensor([[1.0, 0, 0, 0], [COSINE, 0.8, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1.0]])
ALIGNMENT = AlignmentReward.from_vectors(torch.tensor([DOG, PUPPY, BALL, LAKE]), VECTORS, 10)
REFERENCE = [A, DOG, IN, A, BALL, IN, A, LAKE]
SLOTS = [0, 0, 1, 1, 1, 2, 2, 2]
"""Of the reference: dog, ball and lake are about region sets 0, 1, 2."""
NO_TAIL, WITH_TAIL = 3, 2
"""Number of region sets; in the second case the lake is said after the last one."""


def score(
    words: list[int], slots: list[int], *, sets: tuple[int, ...] = (0, 1, 2), num_sets: int = NO_TAIL, **weights: float
) -> dict[str, float]:
    """Rewards of a caption under the control that has these region sets in this order."""
    config = ObjectiveConfig(stage="cider_and_nw", noun_weight=1.0, permuted_share=0.5, **weights)
    references = TokenSequences.from_lists([REFERENCE, [A, PUPPY]])
    positions = torch.tensor([SLOTS, [0, 0, *[1] * 6]])
    prepared = NounReferences.prepare(ALIGNMENT, references, positions, 3, torch.tensor([0, 0]))
    rest = [number for number in range(3) if number not in sets]
    is_permuted = sets != tuple(range(num_sets))
    order = ControlOrder(torch.tensor([[*sets, *rest]]), torch.tensor([len(sets)]), torch.tensor([is_permuted]))
    caption, pointer = torch.tensor([[*words, EOS, DOG, PAD]]), torch.tensor([[*slots, *[slots[-1]] * 3]])
    found = NounRewards(ALIGNMENT, prepared, config)(caption, pointer, torch.tensor([0]), order)
    return {name: reward.item() for name, reward in found.items()}


def test_nw_of_a_permuted_control_asks_for_its_order():
    reverse = [A, LAKE, IN, A, BALL, IN, A, DOG]
    assert score(reverse, SLOTS, sets=(2, 1, 0))["nw"] == 1.0
    assert score(REFERENCE, SLOTS, sets=(2, 1, 0))["nw"] == pytest.approx(2 / 3), "NW is 1/3, that of the ball"
    assert score(REFERENCE, SLOTS)["nw"] == 1.0


def test_nw_of_a_subset_asks_for_its_nouns_only():
    assert score([A, LAKE, IN, A, DOG], [0, 0, 1, 1, 1], sets=(2, 0))["nw"] == 1.0
    assert score([A, LAKE, IN, A, BALL, IN, A, DOG], [0, 0, 1, 1, 1, 1, 1, 1], sets=(2, 0))["nw"] < 1.0


def test_nouns_after_the_last_region_set_count_in_the_order_of_mention_only():
    said = [A, BALL, IN, A, DOG]
    assert score(said, [0, 0, 1, 1, 1], sets=(1, 0), num_sets=WITH_TAIL)["nw"] == 1.0
    assert score([A, DOG, IN, A, BALL], [0, 0, 1, 1, 1], sets=(0, 1), num_sets=WITH_TAIL)["nw"] < 1.0
    assert score(REFERENCE, SLOTS, sets=(0, 1), num_sets=WITH_TAIL)["nw"] == 1.0


@pytest.mark.parametrize(
    ("words", "slots", "expected"),
    [
        pytest.param([A, LAKE, IN, A, DOG], [0, 0, 1, 1, 1], 1.0, id="as asked"),
        pytest.param([A, DOG, IN, A, LAKE], [0, 0, 1, 1, 1], 0.0, id="the other way round"),
        pytest.param([A, LAKE, IN, A, PUPPY], [0, 0, 1, 1, 1], (1 + COSINE) / 2, id="a similar noun"),
        pytest.param([A, LAKE, IN, A, DOG], [0, 0, 0, 0, 0], 0.0, id="the pointer never moves"),
        pytest.param([A, LAKE], [0, 0], 0.5, id="one is not described"),
        pytest.param([A, LAKE, BALL, IN, A, DOG], [0, 0, 0, 1, 1, 1], 0.5, id="the last noun counts"),
    ],
)
def test_region_sets_are_named_by_the_last_noun_about_them(words, slots, expected):
    assert score(words, slots, sets=(2, 0), named_set_weight=1.0)["named_sets"] == pytest.approx(expected)


def test_words_after_eos_name_nothing():
    assert score([A], [0], sets=(0,), named_set_weight=1.0)["named_sets"] == 0.0, "a dog follows EOS"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param([A, DOG, IN, A, LAKE], 0.0, id="in this reference"),
        pytest.param([A, PUPPY], 0.0, id="in another reference of the image"),
        pytest.param([A, IN], 0.0, id="no noun"),
    ],
)
def test_nouns_of_any_reference_of_the_image_are_supported(words, expected):
    penalty = score(words, [0] * len(words), unsupported_noun_penalty=2.0)["unsupported_nouns"]
    assert penalty == pytest.approx(expected)


def test_nouns_that_the_image_does_not_have_cost_one_minus_their_highest_cosine():
    references = TokenSequences.from_lists([[A, DOG], [A, LAKE]])
    prepared = NounReferences.prepare(ALIGNMENT, references, torch.zeros(2, 2).long(), 1, torch.tensor([0, 1]))
    rewards = NounRewards(ALIGNMENT, prepared, ObjectiveConfig(stage="cider_and_nw", unsupported_noun_penalty=2.0))
    said = torch.tensor([[A, PUPPY, BALL, EOS]])
    order = ControlOrder.of_mention(torch.tensor([1]), 1)
    for row, cosine in ((0, COSINE), (1, 0.0)):
        found = rewards(said, torch.zeros_like(said), torch.tensor([row]), order)
        assert found["unsupported_nouns"].item() == pytest.approx(-2.0 * ((1 - cosine) + 1))


def test_rewards_do_not_synchronise_with_the_device():
    """Or a step could not be captured as a CUDA graph."""
    references = TokenSequences.from_lists([REFERENCE, [A, PUPPY]])
    prepared = NounReferences.prepare(ALIGNMENT, references, torch.zeros(2, 8).long(), 3, torch.tensor([0, 0]))
    config = ObjectiveConfig(stage="cider_and_nw", named_set_weight=1.0, unsupported_noun_penalty=1.0)
    with FakeTensorMode(allow_non_fake_inputs=True):
        noise = torch.rand(2, num_draws(3))
        order = draw_orders(torch.tensor([2, 3]), noise, 0.5).select(torch.tensor([1, 0]))
        said = torch.tensor([[A, DOG, EOS], [A, BALL, EOS]])
        found = NounRewards(ALIGNMENT, prepared, config)(said, torch.zeros_like(said), torch.tensor([1, 0]), order)
    assert {name: reward.shape for name, reward in found.items()} == dict.fromkeys(
        ("nw", "named_sets", "unsupported_nouns"), (2,)
    )


def test_last_nouns_are_found_slot_by_slot():
    generator = torch.Generator().manual_seed(1)
    nouns = torch.randint(0, 3, (50, 8), generator=generator)
    slots = torch.randint(0, 2, (50, 8), generator=generator).cumsum(1).clamp(max=3)
    found = last_nouns(nouns, slots, 3)
    for row, of_row in zip(range(50), found.tolist(), strict=True):
        expected = [0, 0, 0]
        for noun, slot in zip(nouns[row].tolist(), slots[row].tolist(), strict=True):
            if noun and slot < 3:
                expected[slot] = noun
        assert of_row == expected
