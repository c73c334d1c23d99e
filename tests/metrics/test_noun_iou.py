from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sct.metrics import noun_iou as module
from sct.metrics.captions import pair_words
from sct.metrics.noun_iou import best_assignment, noun_iou
from tests.metrics.noun_tables import BY_HAND, CAPTIONS, pair_of


def brute_force(profits: np.ndarray) -> float:
    profits = profits if profits.shape[0] <= profits.shape[1] else profits.T
    choices = permutations(range(profits.shape[1]), profits.shape[0])
    return max(sum(profits[row, column] for row, column in enumerate(columns)) for columns in choices)


@pytest.mark.parametrize(
    ("candidate", "reference", "paper", "released"),
    [
        pytest.param("", "", 1.0, 1.0, id="nothing and nothing"),
        pytest.param("man", "", 0.0, 1.0, id="nothing expected: 0 / 1, but the released code has 1"),
        pytest.param("", "man", 0.0, 0.0, id="nothing said: 0 / 1"),
        pytest.param("a dog a man", "man runs dog", 1.0, 1.0, id="the same in another order: 2 / (2 + 2 - 2)"),
        pytest.param("boy", "man", 0.9 / 1.1, 0.9 / 1.1, id="alike: 0.9 / (1 + 1 - 0.9)"),
        pytest.param("sky", "man", 0.0, 0.0, id="opposites: 0 / 2"),
        pytest.param("man", "man dog", 0.5, 0.5, id="half of it: 1 / (1 + 2 - 1)"),
        pytest.param("boy cat", "man dog", 1.8 / 2.2, 1.8 / 2.2, id="best partners: 0.9 + 0.9, not 0.8 + 0.8"),
        pytest.param("man man", "man", 1.0, 0.5, id="the set of nouns, or 1 / (2 + 1 - 1) as released"),
        pytest.param("odd", "man", 0.5 / 1.5, 0.0, id="no vector: 0.5 / (1 + 1 - 0.5), or no noun as released"),
        pytest.param("odd", "odd", 1.0, 1.0, id="no vector, but the same"),
    ],
)
def test_scores_by_hand(candidate, reference, paper, released):
    pairs = pair_of(candidate, reference)
    assert noun_iou(pairs, BY_HAND).corpus == pytest.approx(paper, abs=1e-7)
    assert noun_iou(pairs, BY_HAND, reference=True).corpus == pytest.approx(released, abs=1e-7)


def test_mean_over_references_then_over_candidates():
    score = noun_iou(pair_words([["man"], ["dog"]], [[["man"], ["man", "dog"]], [["dog"]]]), BY_HAND)
    assert score.per_caption == pytest.approx([(1 + 0.5) / 2, 1.0])
    assert score.corpus == pytest.approx((0.75 + 1) / 2)


@pytest.mark.parametrize("most_by_subsets", [pytest.param(6, id="by subsets"), pytest.param(0, id="Hungarian")])
@given(profits=arrays(np.float64, st.tuples(*[st.integers(1, 5)] * 3), elements=st.floats(0, 1)))
def test_best_assignment_is_the_best_of_all(most_by_subsets, profits):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_BY_SUBSETS", most_by_subsets)
        found = best_assignment(profits)
    expected = [brute_force(profits[:, :, pair]) for pair in range(profits.shape[2])]
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("reference", [pytest.param(False, id="paper"), pytest.param(True, id="reference")])
@given(first=CAPTIONS, second=CAPTIONS)
def test_from_0_to_1_and_1_for_the_same(reference, first, second):
    score = noun_iou(pair_words([first, first], [[second], [first]]), BY_HAND, reference=reference)
    assert np.all((score.per_caption >= 0) & (score.per_caption <= 1 + 1e-12))
    assert score.per_caption[1] == pytest.approx(1.0)


@given(first=CAPTIONS, second=CAPTIONS)
def test_symmetric(first, second):
    score = noun_iou(pair_words([first, second], [[second], [first]]), BY_HAND)
    assert score.per_caption[0] == pytest.approx(score.per_caption[1], abs=1e-7)


@given(words=st.permutations(["man", "dog", "cat", "boy", "odd"]))
def test_order_does_not_count(words):
    reference = [["man", "cat", "odd"]]
    straight, mixed = (noun_iou(pair_words([said], [reference]), BY_HAND).corpus for said in (sorted(words), words))
    assert mixed == pytest.approx(straight, abs=1e-12)
