import logging
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from sct.metrics.spice import ParseCache, default_folder, file_name


@pytest.fixture(params=["file", "memory"])
def cache(request, tmp_path):
    return ParseCache(tmp_path / "not" / "yet" / "there" / "parses.sqlite" if request.param == "file" else None)


def test_nothing_asked(cache):
    assert cache.get([]) == {}


def test_nothing_kept(cache):
    assert cache.get(["a dog", ""]) == {}


def test_keeps_parses(cache):
    cache.put({"a dog": '[["dog"]]', "": "[]", "un café": '[["caf\u00e9"]]'})
    assert cache.get(["a dog", "a cat", "", "un café"]) == {"a dog": '[["dog"]]', "": "[]", "un café": '[["café"]]'}


def test_more_than_a_query_holds(cache):
    parses = {f"caption {number}": f"[{number}]" for number in range(1201)}
    cache.put(parses)
    assert cache.get([*parses, "another"]) == parses


def test_a_file_outlives_the_program(tmp_path):
    ParseCache(tmp_path / "parses.sqlite").put({"a dog": "[]"})
    assert ParseCache(tmp_path / "parses.sqlite").get(["a dog"]) == {"a dog": "[]"}


def test_keeping_twice_keeps_the_last(cache):
    cache.put({"a dog": "[]"})
    cache.put({"a dog": '[["dog"]]'})
    assert cache.get(["a dog"]) == {"a dog": '[["dog"]]'}


def run(script, *arguments):
    return subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)])


def test_killed_while_writing(tmp_path):
    file = tmp_path / "parses.sqlite"
    ParseCache(file).put({"a dog": "[]"})
    # Killed by its own list of parses, half of which have been written by then.
    script = """
import os, sys
from pathlib import Path
from sct.metrics.spice import ParseCache
class Deadly(dict):
    def items(self):
        for number in range(100_000):
            if number == 50_000:
                os.kill(os.getpid(), 9)
            yield f"caption {number}", "x" * 100
ParseCache(Path(sys.argv[1])).put(Deadly())
"""
    assert run(script, file).wait() == -9
    assert ParseCache(file).get(["a dog", "caption 0", "caption 49999"]) == {"a dog": "[]"}


def test_many_programs_write_at_once(tmp_path):
    file = tmp_path / "parses.sqlite"
    script = """
import sys
from pathlib import Path
from sct.metrics.spice import ParseCache
cache = ParseCache(Path(sys.argv[1]))
for number in range(30):
    cache.put({f"{sys.argv[2]} {number}": "[]", f"of all {number}": "[]"})
    assert len(cache.get([f"{sys.argv[2]} {number}", f"of all {number}"])) == 2
assert cache.file
"""
    programs = [run(script, file, name) for name in "abc"]
    assert [program.wait() for program in programs] == [0, 0, 0]
    with sqlite3.connect(file) as database:
        assert database.execute("SELECT count(*) FROM parses").fetchone() == (4 * 30,)
    database.close()


def broken(folder):
    (folder / "parses.sqlite").write_bytes(b"no database at all" * 100)
    return folder / "parses.sqlite"


def blocked(folder):
    (folder / "file").touch()
    return folder / "file" / "parses.sqlite"


def of_another_make(folder):
    with sqlite3.connect(folder / "parses.sqlite") as database:
        database.execute("CREATE TABLE parses (other TEXT)")
    database.close()
    return folder / "parses.sqlite"


@pytest.mark.parametrize("make", [broken, blocked, of_another_make])
def test_a_file_that_cannot_be_used_is_done_without(make, tmp_path, caplog):
    file = make(tmp_path)
    cache = ParseCache(file)
    with caplog.at_level(logging.WARNING):
        assert cache.get(["a dog"]) == {}
    assert f"parses cannot be kept in {file}" in caplog.text
    cache.put({"a dog": "[]"})
    assert cache.get(["a dog"]) == {"a dog": "[]"}


def test_a_file_that_breaks_later_loses_nothing_new(tmp_path):
    cache = ParseCache(tmp_path / "parses.sqlite")
    cache.put({"a dog": "[]"})
    broken(tmp_path)
    cache.put({"a cat": "[]"})
    assert cache.get(["a cat"]) == {"a cat": "[]"}


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        pytest.param({"HOME": "/home/me"}, "/home/me/.cache/sct/spice", id="nothing set"),
        pytest.param({"XDG_CACHE_HOME": "/fast"}, "/fast/sct/spice", id="the user's caches"),
        pytest.param({"XDG_CACHE_HOME": "/fast", "SCT_SPICE_CACHE": "/own"}, "/own", id="its own"),
    ],
)
def test_default_folder(variables, folder, monkeypatch):
    for name in ("XDG_CACHE_HOME", "SCT_SPICE_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert default_folder() == Path(folder)


def test_other_jars_other_file(tmp_path):
    jar = tmp_path / "spice-1.0.jar"
    jar.write_bytes(b"1")
    first = file_name([jar])
    assert file_name([jar]) == first
    jar.write_bytes(b"12")
    assert file_name([jar]) != first
