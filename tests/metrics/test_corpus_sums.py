"""Sums of scores are exact: neither order nor grouping matters, and files hold them without loss."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.errors import InputError
from sct.metrics.bleu import BleuSums, bleu
from sct.metrics.captions import pair
from sct.metrics.diversity import MutualBleuSums
from sct.metrics.interface import MeanSums, Score
from sct.metrics.meteor import MeteorSums

SCORES = st.lists(st.floats(-1e3, 1e3), max_size=20)


@given(SCORES, st.randoms(use_true_random=False))
def test_order_and_grouping_do_not_matter(scores, random):
    whole = MeanSums.of(scores)
    shuffled = random.sample(scores, len(scores))
    cut, other = sorted(random.randrange(len(scores) + 1) for _ in range(2))
    parts = [MeanSums.of(shuffled[:cut]), MeanSums.of(shuffled[cut:other]), MeanSums.of(shuffled[other:])]
    assert parts[0].add(parts[1]).add(parts[2]) == parts[2].add(parts[0].add(parts[1])) == whole
    assert sum(map(Fraction, whole.terms)) == sum(map(Fraction, scores))
    assert MeanSums.from_array(whole.to_array()) == whole


def test_mean_of_scores():
    assert Score.mean(np.array([0.1] * 10)).corpus == 0.1
    assert math.isnan(MeanSums.of([]).corpus())
    assert math.isnan(MeanSums.of([1.0, math.nan]).add(MeanSums.of([2.0])).corpus())
    assert MeanSums.of([1.0, -1.0]) == MeanSums(2, ())


def test_bleu_counts_add_up():
    candidates = ["a dog runs in the park", "a cat", "the man"]
    references = [["a dog runs"], ["the cat", "a cat sleeps"], ["a man"]]
    whole = bleu(pair(candidates, references))
    parts = [bleu(pair(candidates[rows], references[rows])) for rows in (slice(1, 3), slice(0, 1))]
    for score, first, second in zip(whole.scores, parts[0].scores, parts[1].scores, strict=True):
        assert first.sums.add(second.sums) == score.sums
        assert first.sums.add(second.sums).corpus() == score.corpus
        assert BleuSums.from_array(score.sums.to_array()) == score.sums


def test_ranks_of_mutual_bleu_add_up():
    counts = bleu(pair(["a dog"], [["a dog runs"]])).sums
    one, two = MutualBleuSums((counts,)), MutualBleuSums((counts, counts))
    assert one.add(two) == two.add(one) == MutualBleuSums((counts.add(counts), counts))
    for sums in (one, two, MutualBleuSums(())):
        assert MutualBleuSums.from_array(sums.to_array()) == sums


def test_meteor_does_not_count_the_chunk_of_an_equal_caption():
    other = "2 6 1 3 0 0 1 1 0 0 0 0 0 0 0 0 0 0 0 0 1 1 1"
    equal = "2 2 1 1 1 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 1 2 2"
    sums = MeteorSums.of([other, equal])
    assert sums.statistics == (4, 8, 2, 4, 1, 1, 2, 2, *[0] * 12, 1, 3, 3)
    assert MeteorSums.of([equal]).add(MeteorSums.of([other])) == MeteorSums.from_array(sums.to_array()) == sums


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        pytest.param(MeanSums, np.zeros(0), id="no count"),
        pytest.param(MeanSums, np.array([1.5, 0.0]), id="half a score"),
        pytest.param(MeanSums, np.array([1.0, np.inf]), id="infinite sum"),
        pytest.param(BleuSums, np.zeros(11, np.int64), id="n-grams of no words"),
        pytest.param(BleuSums, np.ones(11), id="counts as floats"),
        pytest.param(MutualBleuSums, np.ones(11, np.int64), id="no ranks"),
        pytest.param(MeteorSums, np.ones(22, np.int64), id="a statistic missing"),
        pytest.param(MeteorSums, np.full(23, -1), id="negative statistics"),
    ],
)
def test_error_about_other_arrays(kind, values):
    with pytest.raises(InputError, match="expected"):
        kind.from_array(values)
