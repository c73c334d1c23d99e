from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.metrics.arrays import RaggedArray
from sct.metrics.ngrams import count_ngrams


def spelled(tables):
    """Each n-gram in words, with its caption and count, in the order of the tables."""
    shorter, spelled_tables = {0: ()}, []
    for table in tables:
        shorter = {
            number: (*shorter[prefix], word)
            for number, (prefix, word) in enumerate(zip(table.prefix.tolist(), table.last_word.tolist(), strict=True))
        }
        parts = (table.ngram.tolist(), table.caption.tolist(), table.count.tolist())
        spelled_tables.append([(shorter[ngram], caption, count) for ngram, caption, count in zip(*parts, strict=True)])
    return spelled_tables


@pytest.mark.parametrize(
    "num_words",
    [pytest.param(5, id="few words"), pytest.param(1 << 55, id="more words than leave bits for the place")],
)
@given(captions=st.lists(st.lists(st.integers(0, 4), max_size=8), max_size=8))
def test_counts_as_a_loop_does(num_words, captions):
    offset = num_words - 5
    values = np.array([word + offset for words in captions for word in words], dtype=np.int64)
    tables = count_ngrams(RaggedArray(values, np.cumsum([0, *map(len, captions)])), num_words)
    for length, found in enumerate(spelled(tables), start=1):
        expected = Counter(
            (tuple(word + offset for word in words[start : start + length]), caption)
            for caption, words in enumerate(captions)
            for start in range(len(words) - length + 1)
        )
        assert {(ngram, caption): count for ngram, caption, count in found} == expected
        assert len(found) == len(expected)
        order = tables[length - 1]
        places = list(zip(order.ngram.tolist(), order.caption.tolist(), strict=True))
        assert places == sorted(places)
