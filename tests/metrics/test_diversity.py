from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.errors import InputError
from sct.metrics.bleu import bleu
from sct.metrics.caption_sets import caption_sets
from sct.metrics.captions import Pairs, pair
from sct.metrics.cider import cider_d
from sct.metrics.diversity import best_of_n, best_rows, distinct_ngrams, mutual_bleu
from sct.metrics.interface import Score

CAPTIONS = st.lists(st.sampled_from(["a", "dog", "runs", "in", "snow"]), max_size=6).map(" ".join)
SETS = st.lists(st.lists(CAPTIONS, min_size=2, max_size=4), min_size=1, max_size=4)


def num_words(pairs: Pairs) -> Score:
    """A metric that likes long captions; of a corpus, it gives the sum."""
    lengths = pairs.candidates.lengths().astype(np.float64)
    return Score(float(lengths.sum()), lengths)


@pytest.mark.parametrize(
    ("scores", "image_rows", "rows"),
    [
        pytest.param([0.5], [0, 1], [0], id="only one"),
        pytest.param([0.5, 0.75, 0.25], [0, 3], [1], id="the highest"),
        pytest.param([0.5, 0.5, 0.75, 0.25], [0, 2, 4], [0, 2], id="each image its own, the first of equals"),
        pytest.param([np.nan, -1.0, np.nan, np.nan], [0, 2, 4], [1, 2], id="not a number is lowest"),
    ],
)
def test_best_rows(scores, image_rows, rows):
    assert best_rows(np.array(scores), np.array(image_rows)).tolist() == rows


def test_the_metric_is_taken_of_the_best_captions():
    sets = caption_sets([["a", "a dog runs", "a dog"], ["in snow"]], [["a dog"], ["snow"]])
    score = best_of_n(sets, num_words)
    assert score.per_caption.tolist() == [3.0, 2.0]
    assert score.corpus == 5.0


def test_best_bleu_is_that_of_the_kept_captions():
    sets = caption_sets(
        [["a dog", "a dog runs in snow", "snow"], ["snow in snow", "a dog in snow runs"]],
        [["a dog runs in snow"], ["a dog in snow"]],
    )
    score = best_of_n(sets, lambda pairs: bleu(pairs).bleu_4)
    kept = pair(["a dog runs in snow", "a dog in snow runs"], [["a dog runs in snow"], ["a dog in snow"]])
    assert score.corpus == bleu(kept).bleu_4.corpus
    np.testing.assert_array_equal(score.per_caption, bleu(kept).bleu_4.per_caption)


@given(captions=SETS)
def test_best_cider_is_the_mean_of_the_best(captions):
    sets = caption_sets(captions, [["a dog runs in snow", "a dog in snow"]] * len(captions))
    frequencies = sets.frequencies()
    score = best_of_n(sets, partial(cider_d, frequencies=frequencies))
    everything = cider_d(sets.pairs_of(np.arange(len(sets.captions))), frequencies).per_caption
    best = [everything[first:last].max() for first, last in zip(sets.image_rows, sets.image_rows[1:], strict=False)]
    np.testing.assert_allclose(score.per_caption, best)
    assert score.corpus == pytest.approx(np.mean(best))


@pytest.mark.parametrize(
    ("captions", "div_1", "div_2"),
    [
        pytest.param([[""]], [0.0], [0.0], id="no words"),
        pytest.param([["a dog runs"]], [3 / 3], [2 / 3], id="one caption: all words, all pairs over words"),
        pytest.param([["a dog runs", "a dog runs"]], [3 / 6], [2 / 6], id="the same twice"),
        pytest.param([["a dog", "a cat"], ["a a a"]], [3 / 4, 1 / 3], [2 / 4, 1 / 3], id="each image by itself"),
        pytest.param([["a dog", "dog a"]], [2 / 4], [2 / 4], id="no pair across two captions"),
    ],
)
def test_distinct_ngrams_by_hand(captions, div_1, div_2):
    sets = caption_sets(captions)
    for length, expected in ((1, div_1), (2, div_2)):
        score = distinct_ngrams(sets, length)
        assert score.per_caption.tolist() == pytest.approx(expected)
        assert score.corpus == pytest.approx(np.mean(expected))


@given(captions=SETS, length=st.integers(1, 4))
def test_distinct_ngrams_are_a_set(captions, length):
    expected = []
    for group in captions:
        words = [caption.split() for caption in group]
        ngrams = {tuple(each[at : at + length]) for each in words for at in range(len(each) - length + 1)}
        expected.append(len(ngrams) / max(1, sum(map(len, words))))
    assert distinct_ngrams(caption_sets(captions), length).per_caption.tolist() == pytest.approx(expected)


def test_ngrams_of_no_or_many_words_are_refused():
    for length in (0, 5):
        with pytest.raises(InputError, match="expected 1 to 4"):
            distinct_ngrams(caption_sets([["a"]]), length)


def test_captions_all_alike_have_mutual_bleu_1():
    score = mutual_bleu(caption_sets([["a dog runs in snow"] * 3]))
    assert score.corpus == pytest.approx(1.0, abs=1e-6)
    assert score.per_caption == pytest.approx([1.0] * 3, abs=1e-6)


def test_captions_that_share_nothing_have_mutual_bleu_0():
    assert mutual_bleu(caption_sets([["a dog runs", "in snow"]])).corpus == pytest.approx(0.0, abs=1e-3)


@given(captions=SETS)
def test_mutual_bleu_is_bleu_against_the_others(captions):
    score = mutual_bleu(caption_sets(captions))
    others = [(group[at], group[:at] + group[at + 1 :]) for group in captions for at in range(len(group))]
    alone = bleu(pair([caption for caption, _ in others], [group for _, group in others])).bleu_4.per_caption
    np.testing.assert_allclose(score.per_caption, alone)
    by_place = []
    for place in range(max(map(len, captions))):
        groups = [group for group in captions if len(group) > place]
        references = [group[:place] + group[place + 1 :] for group in groups]
        by_place.append(bleu(pair([group[place] for group in groups], references)).bleu_4.corpus)
    assert score.corpus == pytest.approx(np.mean(by_place))


def test_a_single_caption_is_refused():
    with pytest.raises(InputError, match="image 1 has one: expected two"):
        mutual_bleu(caption_sets([["a", "b"], ["a"]]))
