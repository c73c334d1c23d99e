import pytest
from hypothesis import given
from pycocoevalcap.bleu.bleu import Bleu

from sct.metrics.bleu import bleu
from sct.metrics.captions import pair, pair_words
from tests.metrics.official_scores import EDGE_CASES, assert_equals_official, official, pairs_of, random_groups


def assert_all_orders_agree(pairs):
    found = bleu(pairs)
    corpus, per_caption = official(Bleu(4), pairs)
    for score, expected, wanted_each in zip(found.scores, corpus, per_caption, strict=True):
        assert_equals_official(score, expected, wanted_each)


@pytest.mark.parametrize("groups", EDGE_CASES)
def test_edge_cases_equal_the_official_tool(groups):
    assert_all_orders_agree(pairs_of(groups))


@given(random_groups)
def test_random_captions_equal_the_official_tool(groups):
    assert_all_orders_agree(pair_words([candidate for candidate, _ in groups], [others for _, others in groups]))


@pytest.mark.parametrize(
    ("candidate", "references", "bleu_1", "bleu_2"),
    [
        pytest.param("", ["a dog"], 0.0, 0.0, id="nothing said"),
        pytest.param("a dog", ["a dog"], 1.0, 1.0, id="the same"),
        # Two of three words, one of two pairs: (2/3 * 1/2) ** (1/2).
        pytest.param("a dog runs", ["a dog sleeps"], 2 / 3, (1 / 3) ** 0.5, id="two of three words"),
        # "a" counts twice, as often as the reference that has it most, not four times.
        pytest.param("a a a a", ["a b c d", "a a b c"], 0.5, (1 / 2 * 1 / 3) ** 0.5, id="counts are clipped"),
    ],
)
def test_shows_its_arithmetic(candidate, references, bleu_1, bleu_2):
    found = bleu(pair([candidate], [references]))
    assert found.bleu_1.corpus == pytest.approx(bleu_1, abs=1e-8)
    assert found.bleu_2.corpus == pytest.approx(bleu_2, abs=1e-8)


def test_the_corpus_figure_adds_up_before_it_divides():
    found = bleu(pair(["a", "b c d"], [["a"], ["x y z"]])).bleu_1
    assert found.corpus == pytest.approx(1 / 4)
    assert found.per_caption == pytest.approx([1.0, 0.0])
