from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.metrics.arrays import RaggedArray
from sct.metrics.ngrams import count_ngrams


def spell_out(tables):
    """Words, caption and count of each entry, in the order of the tables."""
    shorter, result = {0: ()}, []
    for table in tables:
        shorter = {
            number: (*shorter[prefix], word)
            for number, (prefix, word) in enumerate(zip(table.prefix.tolist(), table.last_word.tolist(), strict=True))
        }
        parts = (table.ngram.tolist(), table.caption.tolist(), table.count.tolist())
        result.append([(shorter[ngram], caption, count) for ngram, caption, count in zip(*parts, strict=True)])
    return result


@pytest.mark.parametrize(
    "num_words",
    [pytest.param(5, id="small vocabulary"), pytest.param(1 << 55, id="no bits left for the position")],
)
@given(captions=st.lists(st.lists(st.integers(0, 4), max_size=8), max_size=8))
def test_count_ngrams_equals_a_loop(num_words, captions):
    offset = num_words - 5
    values = np.array([word + offset for words in captions for word in words], dtype=np.int64)
    tables = count_ngrams(RaggedArray(values, np.cumsum([0, *map(len, captions)])), num_words)
    for size, found in enumerate(spell_out(tables), start=1):
        expected = Counter(
            (tuple(word + offset for word in words[start : start + size]), caption)
            for caption, words in enumerate(captions)
            for start in range(len(words) - size + 1)
        )
        assert {(ngram, caption): count for ngram, caption, count in found} == expected
        assert len(found) == len(expected)
        table = tables[size - 1]
        keys = list(zip(table.ngram.tolist(), table.caption.tolist(), strict=True))
        assert keys == sorted(keys)
