from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sct.metrics import noun_iou as module
from sct.metrics.captions import pair_words
from sct.metrics.noun_iou import max_weight_matching, noun_iou
from tests.metrics.noun_tables import CAPTIONS, TABLE, make_pair


def brute_force(weights: np.ndarray) -> float:
    weights = weights if weights.shape[0] <= weights.shape[1] else weights.T
    choices = permutations(range(weights.shape[1]), weights.shape[0])
    return max(sum(weights[row, column] for row, column in enumerate(columns)) for columns in choices)


@pytest.mark.parametrize(
    ("candidate", "reference", "paper", "released"),
    [
        pytest.param("", "", 1.0, 1.0, id="no nouns"),
        pytest.param("man", "", 0.0, 1.0, id="reference without nouns: 0 / 1, released code 1"),
        pytest.param("", "man", 0.0, 0.0, id="candidate without nouns: 0 / 1"),
        pytest.param("a dog a man", "man runs dog", 1.0, 1.0, id="same nouns, other order: 2 / (2 + 2 - 2)"),
        pytest.param("boy", "man", 0.9 / 1.1, 0.9 / 1.1, id="similar: 0.9 / (1 + 1 - 0.9)"),
        pytest.param("sky", "man", 0.0, 0.0, id="opposites: 0 / 2"),
        pytest.param("man", "man dog", 0.5, 0.5, id="half: 1 / (1 + 2 - 1)"),
        pytest.param("boy cat", "man dog", 1.8 / 2.2, 1.8 / 2.2, id="best matching: 0.9 + 0.9, not 0.8 + 0.8"),
        pytest.param("man man", "man", 1.0, 0.5, id="set of nouns, released code 1 / (2 + 1 - 1)"),
        pytest.param("odd", "man", 0.5 / 1.5, 0.0, id="no vector: 0.5 / (1 + 1 - 0.5), released code ignores it"),
        pytest.param("odd", "odd", 1.0, 1.0, id="no vector, identical"),
    ],
)
def test_noun_iou_by_hand(candidate, reference, paper, released):
    pairs = make_pair(candidate, reference)
    assert noun_iou(pairs, TABLE).corpus == pytest.approx(paper, abs=1e-7)
    assert noun_iou(pairs, TABLE, reference=True).corpus == pytest.approx(released, abs=1e-7)


def test_mean_over_references_then_over_candidates():
    score = noun_iou(pair_words([["man"], ["dog"]], [[["man"], ["man", "dog"]], [["dog"]]]), TABLE)
    assert score.per_caption == pytest.approx([(1 + 0.5) / 2, 1.0])
    assert score.corpus == pytest.approx((0.75 + 1) / 2)


@pytest.mark.parametrize("max_subset_nouns", [pytest.param(6, id="by subsets"), pytest.param(0, id="Hungarian")])
@given(weights=arrays(np.float64, st.tuples(*[st.integers(1, 5)] * 3), elements=st.floats(0, 1)))
def test_max_weight_matching_equals_brute_force(max_subset_nouns, weights):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_SUBSET_NOUNS", max_subset_nouns)
        found = max_weight_matching(weights)
    expected = [brute_force(weights[:, :, pair]) for pair in range(weights.shape[2])]
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("reference", [pytest.param(False, id="paper"), pytest.param(True, id="reference")])
@given(first=CAPTIONS, second=CAPTIONS)
def test_bounded_and_1_for_identical_captions(reference, first, second):
    score = noun_iou(pair_words([first, first], [[second], [first]]), TABLE, reference=reference)
    assert np.all((score.per_caption >= 0) & (score.per_caption <= 1 + 1e-12))
    assert score.per_caption[1] == pytest.approx(1.0)


@given(first=CAPTIONS, second=CAPTIONS)
def test_symmetric(first, second):
    score = noun_iou(pair_words([first, second], [[second], [first]]), TABLE)
    assert score.per_caption[0] == pytest.approx(score.per_caption[1], abs=1e-7)


@given(words=st.permutations(["man", "dog", "cat", "boy", "odd"]))
def test_order_does_not_matter(words):
    reference = [["man", "cat", "odd"]]
    in_order, shuffled = (noun_iou(pair_words([each], [reference]), TABLE).corpus for each in (sorted(words), words))
    assert shuffled == pytest.approx(in_order, abs=1e-12)
