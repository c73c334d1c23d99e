import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.cider.cider_scorer import CiderScorer

from sct.metrics.captions import pair, pair_words
from sct.metrics.cider import cider_d
from sct.metrics.document_frequencies import DocumentFrequencies
from tests.metrics.official_scores import EDGE_CASES, assert_equals_official, make_pairs, official, random_groups


class OfficialWithTable(CiderScorer):
    """Official scorer with document frequencies of single captions."""

    def __init__(self, documents):
        super().__init__()
        for words in documents:
            self += ("", [" ".join(words)])
        self.compute_doc_freq()
        self.crefs, self.ctest = [], []
        self.num_documents = len(documents)

    @property
    def ref_len(self):
        return math.log(self.num_documents)

    @ref_len.setter
    def ref_len(self, value):
        """Ignore the assignment: the scorer sets the number of scored groups, not of documents."""

    def scores(self, pairs):
        for row in range(len(pairs)):
            self += (" ".join(pairs.candidate_words(row)), [" ".join(words) for words in pairs.reference_words(row)])
        scores = np.array(self.compute_cider())
        return scores.mean(), scores


@pytest.mark.parametrize("groups", EDGE_CASES)
def test_edge_cases_equal_pycocoevalcap(groups):
    pairs = make_pairs(groups)
    assert_equals_official(cider_d(pairs), *official(Cider(), pairs))


@given(random_groups)
def test_random_captions_equal_pycocoevalcap(groups):
    pairs = pair_words([candidate for candidate, _ in groups], [others for _, others in groups])
    assert_equals_official(cider_d(pairs), *official(Cider(), pairs))
    table = DocumentFrequencies.from_references(pairs)
    np.testing.assert_allclose(cider_d(pairs, table).per_caption, cider_d(pairs).per_caption, rtol=0, atol=1e-12)


@given(
    random_groups,
    st.lists(st.lists(st.sampled_from("abcdefgxyz"), max_size=12), min_size=1, max_size=12),
)
def test_document_frequencies_equal_pycocoevalcap(groups, documents):
    pairs = pair_words([candidate for candidate, _ in groups], [others for _, others in groups])
    found = cider_d(pairs, DocumentFrequencies.from_words(documents))
    assert_equals_official(found, *OfficialWithTable(documents).scores(pairs))


def test_single_group_scores_0_without_document_frequencies():
    pairs = pair(["a dog runs"], [["a dog runs"]])
    assert cider_d(pairs).corpus == 0
    table = DocumentFrequencies.from_captions(["a dog sleeps", "the cat sits"])
    # Every n-gram is in at most one of two documents, so all have the same IDF; there are no 4-grams.
    assert cider_d(pairs, table).corpus == pytest.approx(7.5)


def test_references_without_words_score_0():
    # pycocoevalcap fails on these.
    assert cider_d(pair(["a dog", "a cat"], [[""], ["."]])).per_caption.tolist() == [0, 0]


def test_cider_by_hand():
    # IDF: log 2 for "x" and "y", 0 for "a", which is in both documents. Unigrams: the cosine of ("x") and ("x", "y") is
    # 1/sqrt(2); bigrams: ("a x") and ("a x", "x y") the same. One bigram against two: exp(-1/72). Two of four sizes are
    # nonzero; the factor is 10.
    found = cider_d(pair(["a x", "b"], [["a x y"], ["a b"]])).per_caption[0]
    assert found == pytest.approx(10 * 2 / 4 / math.sqrt(2) * math.exp(-1 / 72))
