from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.errors import InputError
from sct.metrics.bleu import bleu
from sct.metrics.captions import Pairs, build_caption_sets, pair
from sct.metrics.cider import cider_d
from sct.metrics.diversity import best_of_n, best_rows, distinct_ngrams, mutual_bleu
from sct.metrics.document_frequencies import DocumentFrequencies
from sct.metrics.interface import Score

CAPTIONS = st.lists(st.sampled_from(["a", "dog", "runs", "in", "snow"]), max_size=6).map(" ".join)
SETS = st.lists(st.lists(CAPTIONS, min_size=2, max_size=4), min_size=1, max_size=4)


def num_words(pairs: Pairs) -> Score:
    """Metric of caption length whose corpus score is the sum."""
    lengths = pairs.candidates.lengths().astype(np.float64)
    return Score(float(lengths.sum()), lengths)


@pytest.mark.parametrize(
    ("scores", "offsets", "rows"),
    [
        pytest.param([0.5], [0, 1], [0], id="single caption"),
        pytest.param([0.5, 0.75, 0.25], [0, 3], [1], id="highest"),
        pytest.param([0.5, 0.5, 0.75, 0.25], [0, 2, 4], [0, 2], id="per image, first of equals"),
        pytest.param([np.nan, -1.0, np.nan, np.nan], [0, 2, 4], [1, 2], id="NaN is lowest"),
    ],
)
def test_best_rows(scores, offsets, rows):
    assert best_rows(np.array(scores), np.array(offsets)).tolist() == rows


def test_corpus_score_is_of_the_best_captions():
    sets = build_caption_sets([["a", "a dog runs", "a dog"], ["in snow"]], [["a dog"], ["snow"]])
    score = best_of_n(sets, num_words)
    assert score.per_caption.tolist() == [3.0, 2.0]
    assert score.corpus == 5.0


def test_best_bleu_is_of_the_selected_captions():
    sets = build_caption_sets(
        [["a dog", "a dog runs in snow", "snow"], ["snow in snow", "a dog in snow runs"]],
        [["a dog runs in snow"], ["a dog in snow"]],
    )
    score = best_of_n(sets, lambda pairs: bleu(pairs).bleu_4)
    selected = pair(["a dog runs in snow", "a dog in snow runs"], [["a dog runs in snow"], ["a dog in snow"]])
    assert score.corpus == bleu(selected).bleu_4.corpus
    np.testing.assert_array_equal(score.per_caption, bleu(selected).bleu_4.per_caption)


@given(captions=SETS)
def test_best_cider_is_the_mean_of_the_best(captions):
    sets = build_caption_sets(captions, [["a dog runs in snow", "a dog in snow"]] * len(captions))
    frequencies = DocumentFrequencies.from_references(sets)
    score = best_of_n(sets, partial(cider_d, frequencies=frequencies))
    everything = cider_d(sets.select_pairs(np.arange(len(sets.captions))), frequencies).per_caption
    best = [
        everything[first:last].max()
        for first, last in zip(sets.caption_offsets, sets.caption_offsets[1:], strict=False)
    ]
    np.testing.assert_allclose(score.per_caption, best)
    assert score.corpus == pytest.approx(np.mean(best))


@pytest.mark.parametrize(
    ("captions", "div_1", "div_2"),
    [
        pytest.param([[""]], [0.0], [0.0], id="no words"),
        pytest.param([["a dog runs"]], [3 / 3], [2 / 3], id="one caption"),
        pytest.param([["a dog runs", "a dog runs"]], [3 / 6], [2 / 6], id="duplicate caption"),
        pytest.param([["a dog", "a cat"], ["a a a"]], [3 / 4, 1 / 3], [2 / 4, 1 / 3], id="per image"),
        pytest.param([["a dog", "dog a"]], [2 / 4], [2 / 4], id="no bigram across captions"),
    ],
)
def test_distinct_ngrams_by_hand(captions, div_1, div_2):
    sets = build_caption_sets(captions)
    for size, expected in ((1, div_1), (2, div_2)):
        score = distinct_ngrams(sets, size)
        assert score.per_caption.tolist() == pytest.approx(expected)
        assert score.corpus == pytest.approx(np.mean(expected))


@given(captions=SETS, size=st.integers(1, 4))
def test_distinct_ngrams_equals_a_set(captions, size):
    expected = []
    for group in captions:
        words = [caption.split() for caption in group]
        ngrams = {tuple(each[at : at + size]) for each in words for at in range(len(each) - size + 1)}
        expected.append(len(ngrams) / max(1, sum(map(len, words))))
    assert distinct_ngrams(build_caption_sets(captions), size).per_caption.tolist() == pytest.approx(expected)


def test_distinct_ngrams_rejects_other_sizes():
    for size in (0, 5):
        with pytest.raises(InputError, match="expected 1 to 4"):
            distinct_ngrams(build_caption_sets([["a"]]), size)


def test_identical_captions_have_mutual_bleu_1():
    score = mutual_bleu(build_caption_sets([["a dog runs in snow"] * 3]))
    assert score.corpus == pytest.approx(1.0, abs=1e-6)
    assert score.per_caption == pytest.approx([1.0] * 3, abs=1e-6)


def test_disjoint_captions_have_mutual_bleu_0():
    assert mutual_bleu(build_caption_sets([["a dog runs", "in snow"]])).corpus == pytest.approx(0.0, abs=1e-3)


@given(captions=SETS)
def test_mutual_bleu_equals_bleu_against_the_others(captions):
    score = mutual_bleu(build_caption_sets(captions))
    others = [(group[at], group[:at] + group[at + 1 :]) for group in captions for at in range(len(group))]
    alone = bleu(pair([caption for caption, _ in others], [group for _, group in others])).bleu_4.per_caption
    np.testing.assert_allclose(score.per_caption, alone)
    by_rank = []
    for rank in range(max(map(len, captions))):
        groups = [group for group in captions if len(group) > rank]
        references = [group[:rank] + group[rank + 1 :] for group in groups]
        by_rank.append(bleu(pair([group[rank] for group in groups], references)).bleu_4.corpus)
    assert score.corpus == pytest.approx(np.mean(by_rank))


def test_single_caption_is_rejected():
    with pytest.raises(InputError, match="image 1 has 1 caption, expected at least 2"):
        mutual_bleu(build_caption_sets([["a", "b"], ["a"]]))
