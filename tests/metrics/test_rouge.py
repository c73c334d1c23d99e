import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycocoevalcap.rouge.rouge import Rouge

from sct.metrics.captions import pair, pair_words
from sct.metrics.rouge import rouge_l
from tests.metrics.official_scores import EDGE_CASES, assert_equals_official, make_pairs, official, random_groups


@pytest.mark.parametrize("groups", EDGE_CASES)
def test_edge_cases_equal_pycocoevalcap(groups):
    pairs = make_pairs(groups)
    assert_equals_official(rouge_l(pairs), *official(Rouge(), pairs))


@given(random_groups)
def test_random_captions_equal_pycocoevalcap(groups):
    pairs = pair_words([candidate for candidate, _ in groups], [others for _, others in groups])
    assert_equals_official(rouge_l(pairs), *official(Rouge(), pairs))


@pytest.mark.parametrize(
    ("candidate", "references", "score"),
    [
        pytest.param("", [""], 1.0, id="both empty"),
        pytest.param("", ["a dog"], 0.0, id="empty candidate"),
        pytest.param("a dog", ["a dog"], 1.0, id="identical"),
        # LCS "a dog" of three words each: precision, recall and F-score are 2/3.
        pytest.param("a dog runs", ["a big dog"], 2 / 3, id="gaps are allowed"),
        # Precision 1 from the first reference, recall 1 from the second.
        pytest.param("a dog", ["a dog runs fast", "dog"], 1.0, id="maximum of each over references"),
    ],
)
def test_rouge_by_hand(candidate, references, score):
    assert rouge_l(pair([candidate], [references])).corpus == pytest.approx(score)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=150), st.data())
def test_subsequence_has_precision_1(words, data):
    kept = data.draw(st.lists(st.booleans(), min_size=len(words), max_size=len(words)).filter(any))
    shorter = [word for word, keep in zip(words, kept, strict=True) if keep]
    recall, beta_squared = len(shorter) / len(words), 1.44
    expected = (1 + beta_squared) * recall / (recall + beta_squared)
    assert rouge_l(pair_words([shorter], [[words]])).corpus == pytest.approx(expected)
    found = rouge_l(pair_words([words, shorter], [[shorter], [shorter]])).per_caption
    np.testing.assert_allclose(found, [(1 + beta_squared) * recall / (1 + beta_squared * recall), 1.0])
