"""Forms as clients make them, and as they should not be."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.serving.client import _form
from sct.serving.middleware import APIError
from sct.serving.multipart import Body, form_parts

KIND = "multipart/form-data"


def body(data, content_type=f"{KIND}; boundary=xyz"):
    return Body(KIND, content_type, data)


def part(name, content=b"1", more=b""):
    return b'--xyz\r\nContent-Disposition: form-data; name="' + name + b'"' + more + b"\r\n\r\n" + content + b"\r\n"


@pytest.mark.parametrize(
    ("data", "content_type", "expected"),
    [
        pytest.param(b"--xyz--\r\n", f"{KIND}; boundary=xyz", {}, id="no part"),
        pytest.param(part(b"a") + b"--xyz--", f"{KIND}; boundary=xyz", {"a": b"1"}, id="one"),
        pytest.param(part(b"a") + b"--xyz--", f'{KIND}; boundary="xyz"', {"a": b"1"}, id="quoted boundary"),
        pytest.param(part(b"a") + b"--xyz--", f"{KIND}; BOUNDARY=xyz; charset=utf-8", {"a": b"1"}, id="parameters"),
        pytest.param(part(b"a", b"") + part(b"b") + b"--xyz--\r\n", None, {"a": b"", "b": b"1"}, id="an empty part"),
        pytest.param(b"before\r\n" + part(b"a") + b"--xyz--\r\nafter", None, {"a": b"1"}, id="text around"),
        pytest.param(part(b"a", b"x\r\n--xy\r\n\r\n--") + b"--xyz--", None, {"a": b"x\r\n--xy\r\n\r\n--"}, id="lines"),
        pytest.param(part(b"a", more=b'; filename="name.png"') + b"--xyz--", None, {"a": b"1"}, id="a file"),
        pytest.param(
            b'--xyz\r\nA: b\r\ncontent-disposition: form-data; filename="x"; name=a\r\n\r\n1\r\n--xyz--',
            None,
            {"a": b"1"},
            id="headers in another order",
        ),
    ],
)
def test_parts(data, content_type, expected):
    assert form_parts(body(data, content_type or f"{KIND}; boundary=xyz")) == expected


@pytest.mark.parametrize(
    ("data", "content_type", "sentence"),
    [
        pytest.param(b"", f"{KIND}; boundary=xyz", "has no part", id="nothing"),
        pytest.param(part(b"a") + b"--xyz--", KIND, "expected a boundary", id="no boundary"),
        pytest.param(part(b"a") + b"--xyz--", f"{KIND}; boundary=", "expected a boundary", id="an empty boundary"),
        pytest.param(part(b"a") + b"--xyz--", f"{KIND}; boundary=other", "has no part", id="another boundary"),
        pytest.param(part(b"a"), None, "incomplete", id="no end"),
        pytest.param(part(b"a") + part(b"a") + b"--xyz--", None, "two parts 'a'", id="twice"),
        pytest.param(b"--xyz\r\nname=a\r\n\r\n1\r\n--xyz--", None, "has no name", id="no name"),
        pytest.param(b"--xyz\r\n1\r\n--xyz--", None, "no end of its headers", id="no headers"),
        pytest.param(b"--xyzzy\r\nA: b\r\n\r\n1\r\n--xyz--", None, "no end of its headers", id="a longer boundary"),
        pytest.param(part(b"a", more=b"z" * 9000) + b"--xyz--", None, "no end of its headers", id="long headers"),
        pytest.param(b"".join(part(b"%d" % n) for n in range(9)) + b"--xyz--", None, "more than 8 parts", id="many"),
    ],
)
def test_refuses(data, content_type, sentence):
    with pytest.raises(APIError) as refusal:
        form_parts(body(data, content_type or f"{KIND}; boundary=xyz"))
    assert refusal.value.status == 400
    assert sentence in refusal.value.sentence


@given(st.dictionaries(st.sampled_from(["request", "image", "third"]), st.binary(max_size=300), min_size=1))
def test_what_a_client_sends_comes_back(parts):
    boundary = "0123456789abcdef" * 3
    assert form_parts(body(_form(boundary, parts), f"{KIND}; boundary={boundary}")) == parts


@given(st.binary(max_size=200) | st.binary(max_size=99).map(lambda some: part(b"a", some) + b"--xyz--"))
def test_anything_is_taken_apart_or_refused(data):
    with suppress(APIError):
        assert isinstance(form_parts(body(data)), dict)
