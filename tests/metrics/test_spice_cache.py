import logging
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from sct.metrics.spice import ParseCache, cache_file_name, default_cache_dir


@pytest.fixture(params=["file", "memory"])
def cache(request, tmp_path):
    return ParseCache(tmp_path / "not" / "yet" / "there" / "parses.sqlite" if request.param == "file" else None)


def test_get_no_captions(cache):
    assert cache.get([]) == {}


def test_get_from_empty_cache(cache):
    assert cache.get(["a dog", ""]) == {}


def test_put_and_get(cache):
    cache.put({"a dog": '[["dog"]]', "": "[]", "un café": '[["caf\u00e9"]]'})
    assert cache.get(["a dog", "a cat", "", "un café"]) == {"a dog": '[["dog"]]', "": "[]", "un café": '[["café"]]'}


def test_more_captions_than_a_query_allows(cache):
    parses = {f"caption {number}": f"[{number}]" for number in range(1201)}
    cache.put(parses)
    assert cache.get([*parses, "another"]) == parses


def test_file_persists(tmp_path):
    ParseCache(tmp_path / "parses.sqlite").put({"a dog": "[]"})
    assert ParseCache(tmp_path / "parses.sqlite").get(["a dog"]) == {"a dog": "[]"}


def test_put_replaces(cache):
    cache.put({"a dog": "[]"})
    cache.put({"a dog": '[["dog"]]'})
    assert cache.get(["a dog"]) == {"a dog": '[["dog"]]'}


def run(script, *arguments):
    return subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)])


def test_killed_while_writing(tmp_path):
    file = tmp_path / "parses.sqlite"
    ParseCache(file).put({"a dog": "[]"})
    # The mapping kills the process after half of its items were written.
    script = """
import os, sys
from pathlib import Path
from sct.metrics.spice import ParseCache
class KillsHalfway(dict):
    def items(self):
        for number in range(100_000):
            if number == 50_000:
                os.kill(os.getpid(), 9)
            yield f"caption {number}", "x" * 100
ParseCache(Path(sys.argv[1])).put(KillsHalfway())
"""
    assert run(script, file).wait() == -9
    assert ParseCache(file).get(["a dog", "caption 0", "caption 49999"]) == {"a dog": "[]"}


def test_concurrent_writers(tmp_path):
    file = tmp_path / "parses.sqlite"
    script = """
import sys
from pathlib import Path
from sct.metrics.spice import ParseCache
cache = ParseCache(Path(sys.argv[1]))
for number in range(30):
    cache.put({f"{sys.argv[2]} {number}": "[]", f"shared {number}": "[]"})
    assert len(cache.get([f"{sys.argv[2]} {number}", f"shared {number}"])) == 2
assert cache.file
"""
    programs = [run(script, file, name) for name in "abc"]
    assert [program.wait() for program in programs] == [0, 0, 0]
    with sqlite3.connect(file) as database:
        assert database.execute("SELECT count(*) FROM parses").fetchone() == (4 * 30,)
    database.close()


def corrupt(folder):
    (folder / "parses.sqlite").write_bytes(b"no database at all" * 100)
    return folder / "parses.sqlite"


def blocked(folder):
    (folder / "file").touch()
    return folder / "file" / "parses.sqlite"


def other_schema(folder):
    with sqlite3.connect(folder / "parses.sqlite") as database:
        database.execute("CREATE TABLE parses (other TEXT)")
    database.close()
    return folder / "parses.sqlite"


def undecodable(folder):
    """A database whose schema is not UTF-8."""
    path = folder / "parses.sqlite"
    ParseCache(path).put({"a dog": "[]"})
    path.write_bytes(path.read_bytes().replace(b"(caption TEXT", b"\xa6caption TEXT"))
    return path


@pytest.mark.parametrize("make", [corrupt, blocked, other_schema, undecodable])
def test_unusable_file_falls_back_to_memory(make, tmp_path, caplog):
    file = make(tmp_path)
    cache = ParseCache(file)
    with caplog.at_level(logging.WARNING):
        assert cache.get(["a dog"]) == {}
    assert f"cannot use the SPICE cache {file}" in caplog.text
    cache.put({"a dog": "[]"})
    assert cache.get(["a dog"]) == {"a dog": "[]"}


def test_file_that_breaks_later_falls_back_to_memory(tmp_path):
    cache = ParseCache(tmp_path / "parses.sqlite")
    cache.put({"a dog": "[]"})
    corrupt(tmp_path)
    cache.put({"a cat": "[]"})
    assert cache.get(["a cat"]) == {"a cat": "[]"}


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        pytest.param({"HOME": "/home/me"}, "/home/me/.cache/sct/spice", id="default"),
        pytest.param({"XDG_CACHE_HOME": "/fast"}, "/fast/sct/spice", id="XDG"),
        pytest.param({"XDG_CACHE_HOME": "/fast", "SCT_SPICE_CACHE": "/own"}, "/own", id="SCT_SPICE_CACHE"),
    ],
)
def test_default_folder(variables, folder, monkeypatch):
    for name in ("XDG_CACHE_HOME", "SCT_SPICE_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert default_cache_dir() == Path(folder)


def test_cache_file_name_depends_on_jars(tmp_path):
    jar = tmp_path / "spice-1.0.jar"
    jar.write_bytes(b"1")
    first = cache_file_name([jar])
    assert cache_file_name([jar]) == first
    jar.write_bytes(b"12")
    assert cache_file_name([jar]) != first
