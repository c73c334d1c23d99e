"""Tests of reading text, JSON and TOML files of others."""

import os
import tracemalloc

import pytest

from sct import limits
from sct.errors import InputError
from sct.storage import reading
from sct.storage.reading import parse_json, read_bytes, read_json, read_lines, read_text, read_toml

DEEP = 100_000


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


@pytest.mark.parametrize("read", [read_bytes, read_text, read_json, read_toml, lambda *a: list(read_lines(*a))])
@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "device", "below a file", "null character"])
def test_only_regular_files_are_read(path, read, kind):
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "below a file":
        path.write_bytes(b"")
        path /= "file"
    elif kind == "null character":
        path = path.with_name("a\0b")
    with pytest.raises(InputError, match="expected a thing"):
        read(path, "a thing")


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        pytest.param(b"", [], id="empty"),
        pytest.param(b"a", [(1, "a")], id="no line break at the end"),
        pytest.param(b"\xef\xbb\xbfa\r\n\nb\n", [(1, "a"), (2, ""), (3, "b")], id="byte order mark, CRLF, empty line"),
    ],
)
def test_lines(path, content, lines):
    path.write_bytes(content)
    assert list(read_lines(path, "a thing")) == lines


def test_a_long_line_or_file_is_refused(path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 3)
    path.write_bytes(b"ab\nabcd\n")
    with pytest.raises(InputError, match=r"file:2 has more than 3 bytes"):
        list(read_lines(path, "a thing"))
    with pytest.raises(InputError, match="has 8 bytes: expected a thing of at most 7"):
        read_bytes(path, "a thing", max_bytes=7)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "is not valid JSON", id="empty"),
        pytest.param(b"[" * DEEP, "is nested too deeply", id="deep list"),
        pytest.param(b'{"a":' * DEEP, "is nested too deeply", id="deep object"),
        pytest.param(b"9" * 5000, "has a number of too many digits: expected JSON$", id="integer of 5,000 digits"),
        pytest.param("{}".encode("utf-16"), "is not UTF-8", id="UTF-16"),
        pytest.param(b'"\xff"', "is not UTF-8", id="invalid byte"),
    ],
)
def test_damaged_json(path, content, reason):
    path.write_bytes(content)
    with pytest.raises(InputError, match=reason):
        read_json(path, "a thing")
    with pytest.raises(InputError, match=f"^here {reason}"):
        parse_json(content, "here")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"a = ", "is not valid TOML", id="no value"),
        pytest.param(b"a = " + b"[" * DEEP, "is nested too deeply", id="deep list"),
        pytest.param(b"a = " + b"9" * 5000, "a number of too many digits: expected", id="integer of 5,000 digits"),
        pytest.param(b"a = '\xff'", "is not UTF-8", id="invalid byte"),
        pytest.param(b"#" * (limits.MAX_TOML_BYTES + 1), "bytes: expected a thing of at most", id="too long"),
    ],
)
def test_damaged_toml(path, content, reason):
    path.write_bytes(content)
    with pytest.raises(InputError, match=reason):
        read_toml(path, "a thing")


def test_a_small_file_takes_little_memory(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"[]")
    tracemalloc.start()
    read_json(path, "a list")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
