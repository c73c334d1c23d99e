"""Scores of pycocoevalcap, and captions to compare them on."""

import numpy as np
import pytest
from hypothesis import strategies as st
from pycocoevalcap.bleu.bleu import Bleu

from sct.metrics.captions import pair

TOLERANCE = 1e-6


def official(scorer, pairs):
    """Corpus and per-caption scores of ``Bleu(4)``, ``Rouge()`` or ``Cider()``."""
    references = {row: [" ".join(words) for words in pairs.reference_words(row)] for row in range(len(pairs))}
    candidates = {row: [" ".join(pairs.candidate_words(row))] for row in range(len(pairs))}
    quiet = {"verbose": 0} if isinstance(scorer, Bleu) else {}
    corpus, per_caption = scorer.compute_score(references, candidates, **quiet)
    return corpus, np.array(per_caption)


def assert_equals_official(score, corpus, per_caption):
    """Compare corpus and per-caption scores."""
    assert score.corpus == pytest.approx(corpus, rel=0, abs=TOLERANCE)
    np.testing.assert_allclose(score.per_caption, per_caption, rtol=0, atol=TOLERANCE)


def letters(first, count):
    """Distinct one-letter words from consecutive code points."""
    return [chr(ord(first) + index) for index in range(count)]


# Groups of a candidate and its references.
EDGE_CASES = [
    pytest.param([("", ["a dog"])], id="empty candidate, one group"),
    pytest.param([("", ["a dog"]), ("a cat", ["a cat sat"])], id="empty candidate"),
    pytest.param([("a dog", [""]), ("a cat", ["a cat sat"])], id="empty reference"),
    pytest.param([("", [""]), ("a cat", ["a cat sat"])], id="both empty"),
    pytest.param([("...", ["?", "a dog"]), ("a cat", ["a cat sat"])], id="punctuation only"),
    pytest.param([("dog", ["dog"]), ("cat", ["a cat"])], id="one word"),
    pytest.param([("a dog runs", ["a dog runs"])], id="identical, one group"),
    pytest.param([("a dog runs by", ["a dog runs by"]), ("a cat", ["a cat"])], id="identical"),
    pytest.param([("a dog", ["the cat sat"]), ("one two", ["three four"])], id="nothing in common"),
    pytest.param([("a dog", ["a dog", "a dog"]), ("a dog", ["a dog"])], id="all n-grams in all documents"),
    pytest.param([("the the the the the", ["the cat", "the the mat"]), ("a", ["a"])], id="clipped repetitions"),
    pytest.param([("a b", ["a b c", "a"]), ("x", ["y"])], id="two lengths equally close"),
    pytest.param([("a a b a a b", ["a b a b a b", "b a a"]), ("b b", ["a b b a"])], id="repeated bigrams"),
    pytest.param(
        [
            (" ".join(letters("\u0400", 60)), [" ".join(letters("\u0410", 60)), "\u0410 \u0420"]),
            ("a dog", ["a dog runs"]),
        ],
        id="60 words",
    ),
    pytest.param(
        [
            (" ".join(letters("\u0400", count)), [" ".join(letters("\u0400", 62) + letters("\u0440", 80)), "a dog"])
            for count in (62, 63, 64, 65, 66, 127, 128, 129, 150)
        ],
        id="around and beyond 64 words",
    ),
    pytest.param([("a b " * 40, ["b a " * 50, "a " * 70]), ("b", ["b " * 90])], id="long and repetitive"),
]

_captions = st.one_of(
    st.lists(st.sampled_from("abcd"), max_size=12),
    st.lists(st.sampled_from("abcdefghijklmnop"), max_size=12),
    st.lists(st.sampled_from("abcdefgh"), min_size=58, max_size=140),
)
# The official CIDEr fails if no reference has a word.
random_groups = st.lists(
    st.tuples(_captions, st.lists(_captions, min_size=1, max_size=5)), min_size=1, max_size=8
).filter(lambda groups: any(words for _, references in groups for words in references))


def make_pairs(groups):
    """Pairs of an edge case."""
    return pair([candidate for candidate, _ in groups], [references for _, references in groups])
