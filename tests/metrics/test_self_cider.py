from collections import Counter
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.errors import InputError
from sct.metrics.captions import CaptionSets, build_caption_sets
from sct.metrics.document_frequencies import DocumentFrequencies
from sct.metrics.self_cider import self_cider, spectral_diversity

REFERENCES = ["a dog runs in snow", "a cat sleeps in snow", "a cat runs", "snow"]
CAPTIONS = st.lists(st.sampled_from(["a", "dog", "runs", "in", "snow", "new"]), max_size=6).map(" ".join)


def naive_self_cider(sets: CaptionSets, captions: list[str]) -> float:
    """Definition with dictionaries, one caption at a time."""
    frequencies = DocumentFrequencies.from_references(sets)

    def vector(caption: str, length: int) -> dict[str, float]:
        words = caption.split()
        counts = Counter(" ".join(words[at : at + length]) for at in range(len(words) - length + 1))
        return {
            ngram: count * log(frequencies.num_documents / frequencies.document_count(ngram))
            for ngram, count in counts.items()
        }

    def cosine(first: dict[str, float], second: dict[str, float]) -> float:
        norms = [sqrt(sum(value**2 for value in each.values())) for each in (first, second)]
        product = sum(value * second.get(ngram, 0.0) for ngram, value in first.items())
        return product / (norms[0] * norms[1]) if all(norms) else 0.0

    matrix = np.array([
        [np.mean([cosine(vector(one, length), vector(other, length)) for length in range(1, 5)]) for other in captions]
        for one in captions
    ])  # fmt: skip
    roots = np.sqrt(np.clip(np.linalg.eigvalsh(matrix), 0, None))
    return float(-np.log(roots.max() / roots.sum()) / np.log(len(captions))) if roots.any() else 0.0


@pytest.mark.parametrize(
    ("similarities", "score"),
    [
        pytest.param(np.zeros((2, 2)), 0.0, id="zero IDF"),
        pytest.param(np.ones((3, 3)), 0.0, id="identical: one eigenvalue, -log_3(1)"),
        pytest.param(np.eye(3), 1.0, id="disjoint: -log_3(1 / 3)"),
        # Eigenvalues 1.6 and 0.4, roots 1.2649 and 0.6325: two thirds in the first.
        pytest.param(np.array([[1.0, 0.6], [0.6, 1.0]]), -log(2 / 3) / log(2), id="-log_2(2 / 3)"),
        pytest.param(np.kron(np.eye(2), np.ones((2, 2))), 0.5, id="two pairs of duplicates: -log_4(1 / 2)"),
    ],
)
def test_spectral_diversity(similarities, score):
    assert spectral_diversity(similarities) == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize(
    ("captions", "score"),
    [
        pytest.param(["", ""], 0.0, id="no words"),
        pytest.param(["a dog runs in snow"] * 3, 0.0, id="identical"),
        pytest.param(["a dog runs in snow", "cat sleeps on new grass"], 1.0, id="disjoint"),
    ],
)
def test_self_cider_extremes(captions, score):
    sets = build_caption_sets([captions] + [["a"] * 2] * 3, [[reference] for reference in REFERENCES])
    assert self_cider(sets).per_caption[0] == pytest.approx(score, abs=1e-6)


@given(captions=st.lists(st.lists(CAPTIONS, min_size=2, max_size=4), min_size=4, max_size=4))
def test_self_cider_equals_the_definition(captions):
    sets = build_caption_sets(captions, [[reference] for reference in REFERENCES])
    score = self_cider(sets)
    assert score.per_caption == pytest.approx([naive_self_cider(sets, group) for group in captions], abs=1e-6)
    assert score.corpus == pytest.approx(score.per_caption.mean())


def test_given_document_frequencies():
    captions = [["a dog", "a cat"]]
    frequencies = DocumentFrequencies.from_captions(REFERENCES)
    assert self_cider(build_caption_sets(captions), frequencies).corpus > 0


def test_single_caption_is_rejected():
    with pytest.raises(InputError, match="image 0 has 1 caption, expected at least 2"):
        self_cider(build_caption_sets([["a dog"]], [["a dog"]]))


def test_blocks_of_columns_do_not_change_the_score(monkeypatch):
    captions = [["a dog runs in snow", "a cat sleeps", "snow", "a dog runs"], ["a cat", "a dog in snow"]]
    sets = build_caption_sets(captions, [REFERENCES[:2], REFERENCES[2:]])
    expected = self_cider(sets).per_caption
    monkeypatch.setattr("sct.metrics.self_cider._BLOCK_CELLS", 9)  # 2 or 4 columns
    np.testing.assert_allclose(self_cider(sets).per_caption, expected, rtol=1e-12)
