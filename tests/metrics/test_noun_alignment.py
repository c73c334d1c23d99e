from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sct.language.noun_table import NounTable
from sct.metrics.captions import pair_words
from sct.metrics.noun_alignment import best_alignment, noun_alignment
from tests.metrics.noun_tables import BY_HAND, CAPTIONS, pair_of


def recursive(similarities: np.ndarray) -> float:
    """Needleman and Wunsch's recursion as their paper has it."""

    @cache
    def best(i: int, j: int) -> float:
        if i == 0 or j == 0:
            return -float(i + j)
        paired = best(i - 1, j - 1) + similarities[i - 1, j - 1]
        return max(paired, best(i - 1, j) - 1, best(i, j - 1) - 1)

    return best(*similarities.shape)


@pytest.mark.parametrize(
    ("candidate", "reference", "score"),
    [
        pytest.param("", "", 0.0, id="nothing to align"),
        pytest.param("runs", "a", 0.0, id="words but no nouns"),
        pytest.param("", "a man", -1.0, id="one gap for one noun: -1 / 1"),
        pytest.param("a man a dog", "runs", -1.0, id="two gaps for two nouns: -2 / 2"),
        pytest.param("a man a dog", "a man runs a dog", 1.0, id="the same nouns: (1 + 1) / 2"),
        pytest.param("boy dog", "man dog", 0.9, id="one alike: (0.8 + 1) / 2"),
        pytest.param("dog man", "man dog", 0.0, id="order counts: (0 + 0) / 2, and not a pair and two gaps"),
        pytest.param("man", "man dog cat", -1 / 3, id="two gaps: (1 - 1 - 1) / 3"),
        pytest.param("sky", "man", -1.0, id="opposites: -1 / 1"),
        pytest.param("odd", "odd", 1.0, id="a noun without a vector and itself"),
        pytest.param("odd man", "dog man", 0.5, id="a noun without a vector and another: (0 + 1) / 2"),
        pytest.param("man man", "man", 0.0, id="a repeated noun: (1 - 1) / 2"),
    ],
)
def test_scores_by_hand(candidate, reference, score):
    assert noun_alignment(pair_of(candidate, reference), BY_HAND).corpus == pytest.approx(score, abs=1e-7)


def test_mean_over_references_then_over_candidates():
    pairs = pair_words(
        [["boy", "dog"], [], ["man"]],
        [[["man", "dog"], ["boy", "dog"], []], [[]], [["boy"]]],
    )
    score = noun_alignment(pairs, BY_HAND)
    assert score.per_caption == pytest.approx([(0.9 + 1 - 1) / 3, 0.0, 0.8], abs=1e-7)
    assert score.corpus == pytest.approx((0.3 + 0 + 0.8) / 3, abs=1e-7)


def test_reference_mode_has_no_nouns_without_vectors():
    assert noun_alignment(pair_of("odd man", "man"), BY_HAND).corpus == 0.0  # (1 - 1) / 2
    assert noun_alignment(pair_of("odd man", "man"), BY_HAND, reference=True).corpus == 1.0


def test_many_pairs_of_one_size_are_scored_as_few_are(monkeypatch):
    words = np.random.default_rng(0).choice(BY_HAND.nouns, size=(40, 3)).tolist()
    pairs = pair_words(words[:20], [[reference] for reference in words[20:]])
    whole = noun_alignment(pairs, BY_HAND).per_caption
    monkeypatch.setattr("sct.metrics.noun_pairs.CELLS_AT_ONCE", 30)
    np.testing.assert_array_equal(noun_alignment(pairs, BY_HAND).per_caption, whole)


@given(similarities=arrays(np.float64, st.tuples(*[st.integers(1, 5)] * 3), elements=st.floats(-1, 1)))
def test_best_alignment_is_the_recursion(similarities):
    expected = [recursive(similarities[:, :, pair]) for pair in range(similarities.shape[2])]
    np.testing.assert_allclose(best_alignment(similarities), expected, atol=1e-12)


@given(first=CAPTIONS, second=CAPTIONS)
def test_symmetric_and_from_minus_1_to_1(first, second):
    score = noun_alignment(pair_words([first, second], [[second], [first]]), BY_HAND)
    assert score.per_caption[0] == pytest.approx(score.per_caption[1], abs=1e-7)
    assert np.all(np.abs(score.per_caption) <= 1 + 1e-12)


@given(words=CAPTIONS)
def test_a_caption_is_aligned_with_itself(words):
    has_noun = any(word in BY_HAND for word in words)
    assert noun_alignment(pair_words([words], [[words]]), BY_HAND).corpus == (1.0 if has_noun else 0.0)


@given(captions=st.lists(st.tuples(CAPTIONS, st.lists(CAPTIONS, min_size=1, max_size=3)), min_size=1, max_size=5))
def test_a_caption_is_scored_alike_in_any_company(captions):
    together = noun_alignment(pair_words([said for said, _ in captions], [group for _, group in captions]), BY_HAND)
    alone = [noun_alignment(pair_words([said], [group]), BY_HAND).corpus for said, group in captions]
    assert together.per_caption == pytest.approx(alone, abs=1e-12)


def test_long_captions():
    nouns = [f"noun{row}" for row in range(60)]
    table = NounTable.from_vectors(nouns, np.random.default_rng(0).normal(size=(60, 50)), "random")
    assert noun_alignment(pair_words([nouns], [[nouns]]), table).corpus == 1.0
    backwards = noun_alignment(pair_words([nouns[::-1]], [[nouns]]), table)
    assert -1 <= backwards.corpus < 0.5
