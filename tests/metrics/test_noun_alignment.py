from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sct.language.noun_table import NounTable
from sct.metrics.captions import pair_words
from sct.metrics.noun_alignment import needleman_wunsch, noun_alignment
from tests.metrics.noun_tables import CAPTIONS, TABLE, make_pair


def recursive_needleman_wunsch(similarities: np.ndarray) -> float:
    """Recursion of Needleman and Wunsch."""

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
        pytest.param("", "", 0.0, id="no words"),
        pytest.param("runs", "a", 0.0, id="no nouns"),
        pytest.param("", "a man", -1.0, id="one gap for one noun: -1 / 1"),
        pytest.param("a man a dog", "runs", -1.0, id="two gaps for two nouns: -2 / 2"),
        pytest.param("a man a dog", "a man runs a dog", 1.0, id="identical nouns: (1 + 1) / 2"),
        pytest.param("boy dog", "man dog", 0.9, id="one similar: (0.8 + 1) / 2"),
        pytest.param("dog man", "man dog", 0.0, id="order matters: (0 + 0) / 2"),
        pytest.param("man", "man dog cat", -1 / 3, id="two gaps: (1 - 1 - 1) / 3"),
        pytest.param("sky", "man", -1.0, id="opposites: -1 / 1"),
        pytest.param("odd", "odd", 1.0, id="noun without vector, identical"),
        pytest.param("odd man", "dog man", 0.5, id="noun without vector, different: (0 + 1) / 2"),
        pytest.param("man man", "man", 0.0, id="repeated noun: (1 - 1) / 2"),
    ],
)
def test_noun_alignment_by_hand(candidate, reference, score):
    assert noun_alignment(make_pair(candidate, reference), TABLE).corpus == pytest.approx(score, abs=1e-7)


def test_mean_over_references_then_over_candidates():
    pairs = pair_words(
        [["boy", "dog"], [], ["man"]],
        [[["man", "dog"], ["boy", "dog"], []], [[]], [["boy"]]],
    )
    score = noun_alignment(pairs, TABLE)
    assert score.per_caption == pytest.approx([(0.9 + 1 - 1) / 3, 0.0, 0.8], abs=1e-7)
    assert score.corpus == pytest.approx((0.3 + 0 + 0.8) / 3, abs=1e-7)


def test_reference_mode_ignores_nouns_without_vectors():
    assert noun_alignment(make_pair("odd man", "man"), TABLE).corpus == 0.0  # (1 - 1) / 2
    assert noun_alignment(make_pair("odd man", "man"), TABLE, reference=True).corpus == 1.0


def test_large_buckets_are_split(monkeypatch):
    words = np.random.default_rng(0).choice(TABLE.nouns, size=(40, 3)).tolist()
    pairs = pair_words(words[:20], [[reference] for reference in words[20:]])
    whole = noun_alignment(pairs, TABLE).per_caption
    monkeypatch.setattr("sct.metrics.noun_pairs.BUCKET_CELLS", 30)
    np.testing.assert_array_equal(noun_alignment(pairs, TABLE).per_caption, whole)


@given(similarities=arrays(np.float64, st.tuples(*[st.integers(1, 5)] * 3), elements=st.floats(-1, 1)))
def test_needleman_wunsch_equals_the_recursion(similarities):
    expected = [recursive_needleman_wunsch(similarities[:, :, pair]) for pair in range(similarities.shape[2])]
    np.testing.assert_allclose(needleman_wunsch(similarities), expected, atol=1e-12)


@given(first=CAPTIONS, second=CAPTIONS)
def test_symmetric_and_bounded(first, second):
    score = noun_alignment(pair_words([first, second], [[second], [first]]), TABLE)
    assert score.per_caption[0] == pytest.approx(score.per_caption[1], abs=1e-7)
    assert np.all(np.abs(score.per_caption) <= 1 + 1e-12)


@given(words=CAPTIONS)
def test_caption_against_itself(words):
    has_noun = any(word in TABLE for word in words)
    assert noun_alignment(pair_words([words], [[words]]), TABLE).corpus == (1.0 if has_noun else 0.0)


@given(captions=st.lists(st.tuples(CAPTIONS, st.lists(CAPTIONS, min_size=1, max_size=3)), min_size=1, max_size=5))
def test_score_is_independent_of_other_captions(captions):
    together = noun_alignment(
        pair_words([candidate for candidate, _ in captions], [group for _, group in captions]), TABLE
    )
    alone = [noun_alignment(pair_words([candidate], [group]), TABLE).corpus for candidate, group in captions]
    assert together.per_caption == pytest.approx(alone, abs=1e-12)


def test_long_captions():
    nouns = [f"noun{row}" for row in range(60)]
    table = NounTable.from_vectors(nouns, np.random.default_rng(0).normal(size=(60, 50)), "random")
    assert noun_alignment(pair_words([nouns], [[nouns]]), table).corpus == 1.0
    reversed_nouns = noun_alignment(pair_words([nouns[::-1]], [[nouns]]), table)
    assert -1 <= reversed_nouns.corpus < 0.5
