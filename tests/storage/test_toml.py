import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.errors import InputError
from sct.storage.toml import dump_toml

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = TEXT | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
TABLES = st.dictionaries(TEXT, VALUES | st.dictionaries(TEXT, VALUES))


@given(TABLES)
def test_tomllib_reads_the_same(content):
    found = tomllib.loads(dump_toml(content))
    assert found == content
    for name, value in content.items():
        assert type(found[name]) is type(value)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param({}, "", id="empty"),
        pytest.param({"a": {}}, "\n[a]\n", id="an empty table"),
        pytest.param({"a": {"b": 1}, "c": True}, "c = true\n\n[a]\nb = 1\n", id="values come first"),
        pytest.param({"weights.bin": 'a "b"\n'}, '"weights.bin" = "a \\u0022b\\u0022\\u000a"\n', id="escapes"),
        pytest.param({"score": np.float64(0.5), "small": 1e-5}, "score = 0.5\nsmall = 1e-05\n", id="real numbers"),
    ],
)
def test_text(content, text):
    assert dump_toml(content) == text


@pytest.mark.parametrize("value", [pytest.param(2**63, id="too large"), pytest.param("\ud800", id="lone surrogate")])
def test_unsupported_values_are_refused(value):
    with pytest.raises(InputError, match="for TOML"):
        dump_toml({"a": value})
