"""Toy noun table and captions of its words."""

import numpy as np
from hypothesis import strategies as st

from sct.language.noun_table import NounTable
from sct.metrics.captions import Pairs, pair_words

NOUNS = ("man", "boy", "dog", "cat", "sky", "odd")
WORDS = (*NOUNS, "a", "runs")

TABLE = NounTable.from_vectors(
    NOUNS,
    #         man         boy         dog         cat         sky          odd: no vector
    np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 2.0], [0.6, 0.8], [-3.0, 0.0], [0.0, 0.0]]),
    "toy",
)
"""Cosines: man-boy 0.8, man-dog 0, man-cat 0.6, man-sky -1, boy-dog 0.6, boy-cat 0.96, dog-cat 0.8, odd-any 0."""

CAPTIONS = st.lists(st.sampled_from(WORDS), max_size=8)


def make_pair(candidate: str, *references: str) -> Pairs:
    return pair_words([candidate.split()], [[reference.split() for reference in references]])
