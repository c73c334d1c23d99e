"""Whatever is written is read back the same."""

import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.errors import InputError
from sct.storage.toml import toml_text

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = TEXT | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
TABLES = st.dictionaries(TEXT, VALUES | st.dictionaries(TEXT, VALUES))


@given(TABLES)
def test_is_read_back_the_same(content):
    found = tomllib.loads(toml_text(content))
    assert found == content
    for name, value in content.items():
        assert type(found[name]) is type(value)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param({"a": {}}, "\n[a]\n", id="an empty table"),
        pytest.param({"a": {"b": 1}, "c": True}, "c = true\n\n[a]\nb = 1\n", id="plain settings come first"),
        pytest.param({"weights.bin": 'a "b"\n'}, '"weights.bin" = "a \\u0022b\\u0022\\u000a"\n', id="escapes"),
        pytest.param({"score": np.float64(0.5), "small": 1e-5}, "score = 0.5\nsmall = 1e-05\n", id="real numbers"),
    ],
)
def test_text(content, text):
    assert toml_text(content) == text


@pytest.mark.parametrize("value", [pytest.param(2**63, id="too large"), pytest.param("\ud800", id="half a character")])
def test_refuses_what_toml_cannot_say(value):
    with pytest.raises(InputError, match="does not fit TOML"):
        toml_text({"a": value})
