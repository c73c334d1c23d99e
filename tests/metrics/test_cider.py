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
from tests.metrics.official_scores import EDGE_CASES, assert_equals_official, official, pairs_of, random_groups


class OfficialWithTable(CiderScorer):
    """The official scorer with the document frequencies of captions that are a document each."""

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
        """Ignore what it sets: the number of groups that it scores, which is not that of the documents."""

    def scores(self, pairs):
        for row in range(len(pairs)):
            self += (" ".join(pairs.candidate(row)), [" ".join(words) for words in pairs.references_of(row)])
        scores = np.array(self.compute_cider())
        return scores.mean(), scores


@pytest.mark.parametrize("groups", EDGE_CASES)
def test_edge_cases_equal_the_official_tool(groups):
    pairs = pairs_of(groups)
    assert_equals_official(cider_d(pairs), *official(Cider(), pairs))


@given(random_groups)
def test_random_captions_equal_the_official_tool(groups):
    pairs = pair_words([candidate for candidate, _ in groups], [others for _, others in groups])
    assert_equals_official(cider_d(pairs), *official(Cider(), pairs))
    table = DocumentFrequencies.of_references(pairs)
    np.testing.assert_allclose(cider_d(pairs, table).per_caption, cider_d(pairs).per_caption, rtol=0, atol=1e-12)


@given(
    random_groups,
    st.lists(st.lists(st.sampled_from("abcdefgxyz"), max_size=12), min_size=1, max_size=12),
)
def test_random_captions_with_a_table_equal_the_official_tool(groups, documents):
    pairs = pair_words([candidate for candidate, _ in groups], [others for _, others in groups])
    found = cider_d(pairs, DocumentFrequencies.of_words(documents))
    assert_equals_official(found, *OfficialWithTable(documents).scores(pairs))


def test_a_single_group_scores_nothing_without_a_table():
    pairs = pair(["a dog runs"], [["a dog runs"]])
    assert cider_d(pairs).corpus == 0
    table = DocumentFrequencies.of_captions(["a dog sleeps", "the cat sits"])
    # Every n-gram of it is in one of two documents at most, so each weighs the same. There are none of four words.
    assert cider_d(pairs, table).corpus == pytest.approx(7.5)


def test_references_without_a_word_score_nothing():
    # The official tool falls over these.
    assert cider_d(pair(["a dog", "a cat"], [[""], ["."]])).per_caption.tolist() == [0, 0]


def test_shows_its_arithmetic():
    # Weights: "x" and "y" log 2, "a" nothing, for it is in both documents. Of one word: the cosine of ("x") and
    # ("x", "y") is 1/sqrt(2); of two: ("a x") and ("a x", "x y") the same. One pair of words against two: exp(-1/72).
    # Two of four lengths count, ten times.
    found = cider_d(pair(["a x", "b"], [["a x y"], ["a b"]])).per_caption[0]
    assert found == pytest.approx(10 * 2 / 4 / math.sqrt(2) * math.exp(-1 / 72))
