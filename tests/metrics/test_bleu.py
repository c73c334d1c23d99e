import pytest
from hypothesis import given
from pycocoevalcap.bleu.bleu import Bleu

from sct.metrics.bleu import bleu
from sct.metrics.captions import pair, pair_words
from tests.metrics.official_scores import EDGE_CASES, assert_equals_official, make_pairs, official, random_groups


def assert_equals_official_bleu(pairs):
    scores = bleu(pairs)
    corpus, per_caption = official(Bleu(4), pairs)
    for score, expected, expected_per_caption in zip(scores.scores, corpus, per_caption, strict=True):
        assert_equals_official(score, expected, expected_per_caption)


@pytest.mark.parametrize("groups", EDGE_CASES)
def test_edge_cases_equal_pycocoevalcap(groups):
    assert_equals_official_bleu(make_pairs(groups))


@given(random_groups)
def test_random_captions_equal_pycocoevalcap(groups):
    assert_equals_official_bleu(pair_words([candidate for candidate, _ in groups], [others for _, others in groups]))


@pytest.mark.parametrize(
    ("candidate", "references", "bleu_1", "bleu_2"),
    [
        pytest.param("", ["a dog"], 0.0, 0.0, id="empty candidate"),
        pytest.param("a dog", ["a dog"], 1.0, 1.0, id="identical"),
        # Two of three unigrams, one of two bigrams: (2/3 * 1/2) ** (1/2).
        pytest.param("a dog runs", ["a dog sleeps"], 2 / 3, (1 / 3) ** 0.5, id="two of three words"),
        # "a" counts twice, its maximum over references.
        pytest.param("a a a a", ["a b c d", "a a b c"], 0.5, (1 / 2 * 1 / 3) ** 0.5, id="counts are clipped"),
    ],
)
def test_bleu_by_hand(candidate, references, bleu_1, bleu_2):
    found = bleu(pair([candidate], [references]))
    assert found.bleu_1.corpus == pytest.approx(bleu_1, abs=1e-8)
    assert found.bleu_2.corpus == pytest.approx(bleu_2, abs=1e-8)


def test_corpus_score_sums_before_dividing():
    found = bleu(pair(["a", "b c d"], [["a"], ["x y z"]])).bleu_1
    assert found.corpus == pytest.approx(1 / 4)
    assert found.per_caption == pytest.approx([1.0, 0.0])
